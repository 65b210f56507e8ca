// Package storm is a test: a cluster of real processes whose parts are killed at random while runs go through, and what must be true
// afterwards. It knows the cluster from outside, by what clients are told, and by the stores that the processes leave; it must not know
// how any of them works. It has no code but tests.
package storm
