package api

import (
	"context"
	"net"
	"net/http"
	"time"

	"writ/internal/outbound"
	"writ/internal/unixsocket"
)

// maxAnswer limits an answer in bytes. The configuration of a machine has a few KiB. The limit protects the driver from
// a process that its guest has taken over.
const maxAnswer = 4 << 20

// maxConnections limits the connections of one VMM. The process accepts ten, but answers only one request at a time.
const maxConnections = 2

// VMM is the API of one process, over its socket. Requests are answered in order, including pings, so a slow ping does
// not mean that the process is dead.
type VMM struct {
	VM
	transport *http.Transport
}

// Open returns the API behind a socket. It connects at the first request.
func Open(socket string) *VMM {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return unixsocket.Dial(ctx, socket)
		},
		MaxConnsPerHost:    maxConnections,
		IdleConnTimeout:    10 * time.Second,
		DisableCompression: true,
	}
	doer := &http.Client{Transport: bounded{outbound.Final(t)}}
	return &VMM{VM: VM{client: &Client{Server: "http://localhost/api/v1/", Client: doer}}, transport: t}
}

// Close closes the idle connections.
func (v *VMM) Close() { v.transport.CloseIdleConnections() }

// Ping returns the version of the process.
func (v *VMM) Ping(ctx context.Context) (into Ping, err error) {
	err = call{"vmm.ping", &into}.done(v.client.Ping(ctx))
	return into, err
}

// EndProcess deletes the machine and ends the process.
func (v *VMM) EndProcess(ctx context.Context) error {
	return call{operation: "vmm.shutdown"}.done(v.client.EndProcess(ctx))
}

// bounded fails answers that are too long.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	}
	return answer, err
}
