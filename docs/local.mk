# SPDX-License-Identifier: BSD-3-Clause
# docs/ - manual pages and guides.

dist_man_MANS += \
	%D%/libpenstock.3 \
	%D%/penstock.7 \
	%D%/pipesim.1 \
	%D%/pipesim-schedules.7 \
	%D%/pipetrain.1

dist_doc_DATA += \
	%D%/ARCHITECTURE.md \
	%D%/running-on-several-hosts.md
