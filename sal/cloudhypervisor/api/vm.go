package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"writ/internal/unixsocket"
)

// maxAnswer limits an answer in bytes. Configurations of machines have a few KiB, and the guest may have taken over the
// process.
const maxAnswer = 4 << 20

// maxConnections limits the connections of one VM. The process accepts ten, but answers only one request at a time.
const maxConnections = 2

// VM is the API of one process, over its socket. Requests are answered in order, including pings, so a slow ping does
// not mean that the process is dead.
type VM struct {
	client    *Client
	transport *http.Transport
}

// Open returns the API behind a socket. It connects at the first request.
func Open(socket string) *VM {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return unixsocket.Dial(ctx, socket)
		},
		MaxConnsPerHost:    maxConnections,
		IdleConnTimeout:    10 * time.Second,
		DisableCompression: true,
	}
	doer := &http.Client{Transport: bounded{t}}
	return &VM{transport: t, client: &Client{Server: "http://localhost/api/v1/", Client: doer}}
}

// Close closes the idle connections.
func (v *VM) Close() { v.transport.CloseIdleConnections() }

// bounded fails answers that are too long.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	}
	return answer, err
}

// Refusal is an error answer of the process.
type Refusal struct {
	Operation string   // "vm.boot"
	Status    int      // HTTP status; 500 for nearly every error
	Causes    []string // the process's error messages, outermost first; often empty
}

// Missing reports whether the machine or the named device does not exist.
func (r *Refusal) Missing() bool { return r.Status == http.StatusNotFound }

// Pending reports whether the process still waits for its guest. The same request can succeed later.
func (r *Refusal) Pending() bool { return r.Status == http.StatusTooManyRequests }

// Wrong reports whether the request itself is invalid, so a retry cannot succeed.
func (r *Refusal) Wrong() bool { return r.Status == http.StatusBadRequest }

// Taken reports whether the request creates an object that exists already.
func (r *Refusal) Taken() bool { return r.Status == http.StatusConflict }

// Error returns the causes as one sentence.
func (r *Refusal) Error() string {
	if len(r.Causes) == 0 {
		return fmt.Sprintf("%s: status %d", r.Operation, r.Status)
	}
	return fmt.Sprintf("%s: %s (status %d)", r.Operation, strings.Join(r.Causes, ": "), r.Status)
}

// done reads the answer to a request into the value, unless that is nil, or returns a Refusal. The generated client
// cannot read answers, because the process declares empty bodies as JSON.
func done(operation string, answer *http.Response, err error, into any) error {
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	if answer.StatusCode/100 != 2 {
		return refusal(operation, answer.StatusCode, text)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: read the answer: %w", operation, err)
	}
	return nil
}

func refusal(operation string, status int, text []byte) *Refusal {
	r := &Refusal{Operation: operation, Status: status}
	if json.Unmarshal(text, &r.Causes) != nil && len(text) > 0 {
		const most = 500 // limit for unexpected text
		r.Causes = []string{strings.ToValidUTF8(string(text[:min(len(text), most)]), "?")}
	}
	return r
}

// Ping returns the version of the process.
func (v *VM) Ping(ctx context.Context) (into Ping, err error) {
	answer, err := v.client.Ping(ctx)
	err = done("vmm.ping", answer, err, &into)
	return into, err
}

// Info returns the machine's configuration and state. Before Create it is a Refusal with status 404.
func (v *VM) Info(ctx context.Context) (into Info, err error) {
	answer, err := v.client.Info(ctx)
	err = done("vm.info", answer, err, &into)
	return into, err
}

// Counters returns the I/O counters, by device and counter.
func (v *VM) Counters(ctx context.Context) (into Counters, err error) {
	answer, err := v.client.Counters(ctx)
	err = done("vm.counters", answer, err, &into)
	return into, err
}

// EndProcess deletes the machine and ends the process.
func (v *VM) EndProcess(ctx context.Context) error {
	answer, err := v.client.EndProcess(ctx)
	return done("vmm.shutdown", answer, err, nil)
}

// Create sets the configuration.
func (v *VM) Create(ctx context.Context, c Config) error {
	answer, err := v.client.Create(ctx, c)
	return done("vm.create", answer, err, nil)
}

// Boot builds the machine and starts it.
func (v *VM) Boot(ctx context.Context) error {
	answer, err := v.client.Boot(ctx)
	return done("vm.boot", answer, err, nil)
}

// CutOff stops the machine without its guest, after flushing its disks.
func (v *VM) CutOff(ctx context.Context) error {
	answer, err := v.client.CutOff(ctx)
	return done("vm.shutdown", answer, err, nil)
}

// PressPowerButton asks the guest to shut down.
func (v *VM) PressPowerButton(ctx context.Context) error {
	answer, err := v.client.PressPowerButton(ctx)
	return done("vm.power-button", answer, err, nil)
}

// Pause pauses the machine.
func (v *VM) Pause(ctx context.Context) error {
	answer, err := v.client.Pause(ctx)
	return done("vm.pause", answer, err, nil)
}

// Resume resumes the machine.
func (v *VM) Resume(ctx context.Context) error {
	answer, err := v.client.Resume(ctx)
	return done("vm.resume", answer, err, nil)
}

// Resize changes the CPUs or the memory of the machine.
func (v *VM) Resize(ctx context.Context, to Resize) error {
	answer, err := v.client.Resize(ctx, to)
	return done("vm.resize", answer, err, nil)
}

// ResizeDisk announces the new size of a disk to the guest.
func (v *VM) ResizeDisk(ctx context.Context, to ResizeDisk) error {
	answer, err := v.client.ResizeDisk(ctx, to)
	return done("vm.resize-disk", answer, err, nil)
}

// AddDisk attaches a disk.
func (v *VM) AddDisk(ctx context.Context, disk Disk) error {
	answer, err := v.client.AddDisk(ctx, disk)
	return done("vm.add-disk", answer, err, nil)
}

// RemoveDevice asks the guest to release a device.
func (v *VM) RemoveDevice(ctx context.Context, id string) error {
	answer, err := v.client.RemoveDevice(ctx, Device{ID: id})
	return done("vm.remove-device", answer, err, nil)
}

// Snapshot writes memory and state of a paused machine into an existing directory.
func (v *VM) Snapshot(ctx context.Context, dir string) error {
	answer, err := v.client.Snapshot(ctx, Snapshot{DestinationURL: "file://" + dir})
	return done("vm.snapshot", answer, err, nil)
}

// Restore creates the machine from a snapshot, paused unless resume is set.
func (v *VM) Restore(ctx context.Context, dir string, resume bool) error {
	answer, err := v.client.Restore(ctx, Restore{SourceURL: "file://" + dir, Resume: resume})
	return done("vm.restore", answer, err, nil)
}
