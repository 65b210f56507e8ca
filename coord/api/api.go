// Package api is the HTTP interface of a coordinator: openapi.yaml, and the views generated from it. Package apiclient
// has the client, and package apiserver has the server's interface. Package api describes the wire format, and must not
// depend on the origin of the data. A view that equals a type of package writ is that type; the spec describes it, and
// a test compares both.
package api

import (
	_ "embed"
	"encoding/json"

	"writ"
)

//go:generate go tool -modfile=../../tools/go.mod oapi-codegen -config types.cfg.yaml openapi.yaml
//go:generate go tool -modfile=../../tools/go.mod oapi-codegen -config server.cfg.yaml openapi.yaml
//go:generate go tool -modfile=../../tools/go.mod oapi-codegen -config client.cfg.yaml openapi.yaml

// Spec is openapi.yaml.
//
//go:embed openapi.yaml
var Spec []byte

// SignedType is the content type of a signed text with its signature.
const SignedType = "application/vnd.writ.signed"

// ProblemType is the content type of an error.
const ProblemType = "application/problem+json"

// MaxSigned limits a signed text with its signatures, in bytes: 512 KiB of text and room for the signatures of many
// operators.
const MaxSigned = 1 << 20

// Ended reports whether the run is in a final state. Only a resume changes a final state.
func (s RunState) Ended() bool {
	return s != RunStateWaiting && !s.Open()
}

// Open reports whether the run's datacenter is carrying it out.
func (s RunState) Open() bool {
	return s == RunState(writ.RunAccepted) || s == RunState(writ.RunRunning)
}

// IsConnected reports whether the supervisor of the datacenter is connected to the coordinator, with or without a
// fault.
func (d Datacenter) IsConnected() bool {
	return d.Health == DatacenterHealthHealthy || d.Health == DatacenterHealthFaulty
}

// Given returns v as an optional parameter: nil if v is the zero value. Coordinators reject empty parameters.
func Given[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// Value returns the value of an optional parameter, or the zero value if it is not set.
func Value[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// JSON is an undecoded body. The receiver decodes it, because the generated code would lose digits of large numbers.
type JSON = json.RawMessage

// CallValues is a call with its arguments and results.
type CallValues struct {
	writ.Call
	Args   Values `json:"args,omitempty"`
	Values Values `json:"values,omitempty"`
}

// ListedResource is a resource in a list, with facts that the record of a datacenter lacks.
type ListedResource struct {
	writ.Resource
	Unheard *Unheard `json:"unheard,omitempty"` // nil if the state is current
	Load    *Load    `json:"load,omitempty"`    // load of a machine or container; nil if there is no report
}

// Views converts each item of a list. The result is never nil, so it encodes as a list.
func Views[T, V any](list []T, view func(T) V) []V {
	all := make([]V, len(list))
	for i, item := range list {
		all[i] = view(item)
	}
	return all
}
