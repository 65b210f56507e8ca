// Package signing builds the order that a user signs. It reads a script with its parameters, and selects the project,
// the datacenter and the versions of secrets. It does not send the order.
package signing
