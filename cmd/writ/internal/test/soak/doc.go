// Package soak is a test that runs a cluster of real processes at half of the machine's maximum load for a long time.
// Memory, goroutines and open files of the processes must not grow. The package contains only tests.
package soak
