package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
	"unicode"

	"writ/internal/clip"
)

// Size limits of a probe, in bytes.
const (
	maxHeader = 16 << 10
	maxBody   = 1 << 10 // read only after failed requests
	maxDetail = 300
)

// Probe probes a container once. It returns nil if it is healthy, *Failure if it is not, and otherwise the error of the
// Target or of ctx.
func Probe(ctx context.Context, t Target, c Check) error {
	if err := t.Ready(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var err error
	switch {
	case len(c.Command) > 0:
		err = run(limited, t, c)
	case c.HTTP != "":
		err = request(limited, t, c)
	default:
		err = connectOnly(limited, t, c)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// run probes with a command.
func run(ctx context.Context, t Target, c Check) error {
	exit, output, err := t.Exec(ctx, c.Command)
	switch {
	case ctx.Err() != nil:
		return &Failure{Cause: fmt.Sprintf("the command did not end within %s", c.Timeout)}
	case err != nil:
		return err
	case exit != 0:
		return &Failure{fmt.Sprintf("the command ended with exit code %d", exit), detail(t.Clean(output, false))}
	}
	return nil
}

// connectOnly probes with a connection.
func connectOnly(ctx context.Context, t Target, c Check) error {
	conn, err := dialTarget(ctx, t, c)
	if err != nil {
		return err
	}
	return conn.Close()
}

// request probes with an HTTP request.
func request(ctx context.Context, t Target, c Check) error {
	conn, err := dialTarget(ctx, t, c)
	if err != nil {
		return err
	}
	defer conn.Close()
	// After an answer 101, package net/http leaves the connection to its caller, and ctx does not end a read.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	where := fmt.Sprintf("%s on port %d", c.HTTP, c.Port)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+conn.RemoteAddr().String()+c.HTTP, nil)
	if err != nil {
		return &Failure{Cause: "the path " + c.HTTP + " is invalid"}
	}
	r.Header.Set("User-Agent", "writ-health")
	once := make(chan net.Conn, 1)
	once <- conn
	transport := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case conn := <-once:
				return conn, nil
			default:
				return nil, errors.New("the connection was closed")
			}
		},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
	}
	response, err := transport.RoundTrip(r) // unlike a client, it follows no redirects
	switch {
	case ctx.Err() != nil:
		return &Failure{Cause: fmt.Sprintf("no answer to %s within %s", where, c.Timeout)}
	case err != nil:
		return &Failure{"no HTTP answer to " + where, detail(t.Clean(reason(err), false))}
	}
	defer response.Body.Close()
	if response.StatusCode >= 200 && response.StatusCode < 400 {
		return nil
	}
	failure := &Failure{Cause: fmt.Sprintf("status %d for %s", response.StatusCode, where)}
	if response.StatusCode >= 200 {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxBody)) // possibly a part of it
		failure.Detail = detail(t.Clean(string(body), len(body) == maxBody))
	}
	return failure
}

// dialTarget connects to the port of a check.
func dialTarget(ctx context.Context, t Target, c Check) (net.Conn, error) {
	network, err := t.Network(ctx)
	if err != nil {
		return nil, err
	}
	defer network.Close()
	conn, err := dial(ctx, network, c.Port)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, &Failure{Cause: fmt.Sprintf("no connection to port %d within %s", c.Port, c.Timeout)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, &Failure{Cause: fmt.Sprintf("connection refused at port %d", c.Port)}
	}
	return nil, &Failure{fmt.Sprintf("no connection to port %d", c.Port), clip.OneLine(err.Error(), maxDetail)}
}

// reason returns the text of an error of package net/http, without the addresses of both ends.
func reason(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err.Error()
	}
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "net/http: "), "HTTP/1.x transport connection broken: ")
}

// detail returns the end of a text, in one line without control characters.
func detail(text string) string {
	text = strings.TrimSpace(text)
	if cut := len(text) - maxDetail; cut > 0 {
		text = "…" + string(bytes.TrimLeftFunc([]byte(text[cut:]), func(r rune) bool { return r == unicode.ReplacementChar }))
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
