// Package hostile is a test: a cluster of real processes under half the load that it bears, and beside that one attacker at a time, with the
// power of a node, of a project or of a coordinator and no more. It measures how much longer honest runs take. It has no code but tests:
// nothing that attacks is in the program.
//
// The attacker is a process of its own. It has one processor at most and the lowest priority, and what it used is shown, so that the
// figures say what writ does for it and not how the kernel shares processors between it and writ. What writ does for an attacker does count.
//
// Figures are compared with those of the quiet times right before and after, in the same run: other work on the machine is in both.
package hostile
