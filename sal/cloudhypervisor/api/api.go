// Package api is the client of a cloud-hypervisor process: openapi.yaml, the client generated from it, and a transport
// over the process's socket. It knows the format of requests and answers and the differences between the program and
// its published API; it must not know how a machine should be configured.
package api

//go:generate go tool -modfile=../../../tools/go.mod oapi-codegen -config client.cfg.yaml openapi.yaml
