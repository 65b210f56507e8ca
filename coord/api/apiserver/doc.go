// Package apiserver is the interface that a coordinator implements, generated from openapi.yaml, and the code that
// parses requests and writes responses. It makes no decisions about them.
package apiserver
