// Package soak is a test: a cluster of real processes under half the load that the machine bears, watched for a long time. What they hold,
// in memory, goroutines and open files, must not grow. It has no code but tests.
package soak
