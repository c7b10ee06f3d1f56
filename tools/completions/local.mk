# SPDX-License-Identifier: BSD-3-Clause
# tools/completions - what bash completes on the two command lines.

dist_completions_DATA = %D%/pipesim %D%/pipetrain
