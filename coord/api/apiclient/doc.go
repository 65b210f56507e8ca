// Package apiclient is the Go client of a coordinator, generated from openapi.yaml. It returns responses as they came;
// api.Answer decodes them and their errors.
package apiclient
