// Package api is the HTTP interface of a coordinator: openapi.yaml, and what is generated from it: the views, the server's interface and
// the Go client. It knows how things look on the wire, and must not know how they come about. Views that are values of the shared types
// are those values; the spec describes them, and a test holds the two together.
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

// MaxSigned bounds a signed text with its signatures, in bytes: 512 KiB of text and room for the signatures of many operators.
const MaxSigned = 1 << 20

// Ended reports whether nothing more will happen to the run unless somebody resumes it.
func (s RunState) Ended() bool {
	return s != RunStateWaiting && !s.Open()
}

// Open reports whether the run's datacenter is carrying it out.
func (s RunState) Open() bool {
	return s == RunState(writ.RunAccepted) || s == RunState(writ.RunRunning)
}

// IsConnected reports whether the supervisor of the datacenter is connected to the coordinator, with or without a fault.
func (d Datacenter) IsConnected() bool {
	return d.Health == DatacenterHealthHealthy || d.Health == DatacenterHealthFaulty
}

// Given returns v as a parameter that may be left out: nil if v is the zero value. Coordinators refuse parameters that are empty.
func Given[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// Value returns what a parameter says, or the zero value if it was left out.
func Value[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// JSON is a body as it was sent: its reader knows better than the generated code what numbers are.
type JSON = json.RawMessage

// CallValues is a call with what it was given and what it answered.
type CallValues struct {
	writ.Call
	Args   Values `json:"args,omitempty"`
	Values Values `json:"values,omitempty"`
}
