/* SPDX-License-Identifier: BSD-3-Clause */
/* ops.c - one row an operation: the only place that knows what each one is. */
#include <inttypes.h>
#include <stdio.h>

#include <penstock/schedule.h>

/* In the order of pst_op. Colours go from cool (forward) to warm (backward). */
static const pst_op_description ops[PST_OP_COUNT] = {
    /* csv, name, colour, computes, runs, has mb, makes output, makes dx, saves, frees,
       PyTorch's */
    {"F", "forward", 0x4c78a8, 1, 1, 1, 1, 0, 1, 0, 1},
    {"B", "backward", 0xe8743b, 1, 1, 1, 0, 1, 0, 1, 1},
    {"I", "backward-input", 0xf2a03d, 1, 1, 1, 0, 1, 0, 0, 1},
    {"W", "backward-weight", 0x59a14f, 1, 1, 1, 0, 0, 0, 1, 1},
    {"SEND_F", "send-forward", 0x9ecae9, 0, 0, 1, 0, 0, 0, 0, 1},
    {"RECV_F", "receive-forward", 0xc6dbef, 0, 0, 1, 0, 0, 0, 0, 1},
    {"SEND_B", "send-backward", 0xfdc9a0, 0, 0, 1, 0, 0, 0, 0, 1},
    {"RECV_B", "receive-backward", 0xfee0c8, 0, 0, 1, 0, 0, 0, 0, 1},
    {"UNSHARD", "unshard", 0xb0b0b0, 0, 0, 0, 0, 0, 0, 0, 1},
    {"RESHARD", "reshard", 0xc8c8c8, 0, 0, 0, 0, 0, 0, 0, 1},
    {"REDUCE_GRAD", "reduce-gradient", 0xa0a0a0, 0, 0, 0, 0, 0, 0, 0, 1},
    {"EVICT", "evict", 0xb79ac8, 0, 1, 1, 0, 0, 0, 1, 0},
    {"LOAD", "load", 0x8f6bb3, 0, 1, 1, 0, 0, 1, 0, 0},
    {"STEP", "step", 0x72b7b2, 0, 1, 1, 0, 0, 0, 0, 0},
};

const pst_op_description *pst_op_describe(int op)
{
    return op >= 0 && op < PST_OP_COUNT ? &ops[op] : NULL;
}

char *pst_action_text(pst_action action, char *text, size_t size)
{
    const pst_op_description *op = pst_op_describe(action.op);
    const char *letters = op != NULL ? op->csv : "?";
    if (op != NULL && op->has_microbatch)
        snprintf(text, size, "%u%s%" PRIu32, action.stage, letters, action.microbatch);
    else
        snprintf(text, size, "%u%s", action.stage, letters);
    return text;
}
