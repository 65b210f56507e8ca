// Package sweep is a test that ends a process of a cluster at every place where it writes or sends, in every mode of
// that place, and then checks the results. It knows the places from package failpoint and uses the cluster only from
// outside. It must not know how the processes work. The package contains only tests.
package sweep
