// Package storm is a test that kills random parts of a cluster of real processes while runs are in progress, and then
// checks the results. It uses only the interfaces for clients and the stores that the processes leave. It must not know
// how the processes work. The package contains only tests.
package storm
