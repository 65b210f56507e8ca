// Package orphan lists and describes orphans, which are objects on nodes without a resource.
package orphan
