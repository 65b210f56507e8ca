// Package sweep is a test: a cluster of real processes, of which one ends at each place where something is written or sent, in each way
// that the place has, and what must be true afterwards. It knows the places from package failpoint and the cluster from outside; it must
// not know how any of them works. It has no code but tests.
package sweep
