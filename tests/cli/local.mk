# SPDX-License-Identifier: BSD-3-Clause
# tests/cli - the two programs by their command lines.

EXTRA_DIST += %D%/lib.sh
dist_check_SCRIPTS += \
	%D%/bad_csv.sh \
	%D%/bad_input.sh \
	%D%/binding.sh \
	%D%/fault.sh \
	%D%/options_documented.sh \
	%D%/pipesim.sh \
	%D%/pipetrain.sh \
	%D%/quota.sh \
	%D%/steady.sh
TESTS += \
	%D%/bad_csv.sh \
	%D%/bad_input.sh \
	%D%/binding.sh \
	%D%/fault.sh \
	%D%/options_documented.sh \
	%D%/pipesim.sh \
	%D%/pipetrain.sh \
	%D%/quota.sh \
	%D%/steady.sh
