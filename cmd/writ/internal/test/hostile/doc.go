// Package hostile is a test that measures the effect of attackers on honest runs. It runs a cluster of real processes
// at half of its maximum load, together with one attacker at a time. The attacker controls a node, a project or a
// coordinator. The package contains only tests, so the program contains no attack code.
//
// The attacker is a separate process with at most one CPU and the lowest priority, and its CPU time is reported. The
// results therefore show the work that writ does for the attacker, and not the kernel's scheduling between attacker and
// writ.
//
// Results are compared with quiet periods right before and after the attack, so that other load on the machine affects
// both.
package hostile
