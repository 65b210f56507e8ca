// Package api is the client of a cloud-hypervisor process: openapi.yaml, the client generated from it, and a transport
// over the process's socket. It covers the format of requests and answers and the differences between the program and
// its published API. It does not decide how a machine is configured.
package api

//go:generate go tool -modfile=../../../tools/go.mod oapi-codegen -config client.cfg.yaml openapi.yaml
