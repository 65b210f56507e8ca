package outbound

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"writ/internal/test/testenv"
)

func TestSwitchOfProtocolIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testenv.SwitchingServer(t, l)
	d := Dialer{Servers: []string{l.Addr().String()}}
	transport := d.Transport(nil)
	t.Cleanup(transport.CloseIdleConnections)
	client := d.Client(transport)
	client.Timeout = time.Second
	ask := func(header http.Header) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String(), nil)
		if err != nil {
			return err
		}
		q.Header = header
		answer, err := client.Do(q)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if q.Header.Get("Upgrade") != "" {
			return nil
		}
		_, err = io.ReadAll(answer.Body) // net/http would wait forever
		return err
	}
	if err := testenv.End(t, func() error { return ask(http.Header{}) }); !errors.Is(err, ErrSwitched) {
		t.Errorf("%v", err)
	}
	requested := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"other"}}
	if err := testenv.End(t, func() error { return ask(requested) }); err != nil {
		t.Errorf("after a request for the protocol: %v", err)
	}
}
