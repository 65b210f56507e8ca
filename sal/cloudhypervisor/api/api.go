// Package api is the interface of a cloud-hypervisor process: openapi.yaml, the client that is generated from it, and a transport over the
// process's socket. It knows how requests and answers look and where the program differs from what it publishes; it must not know what a
// machine should be.
package api

//go:generate go tool -modfile=../../../tools/go.mod oapi-codegen -config client.cfg.yaml openapi.yaml
