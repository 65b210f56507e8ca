package mycelium

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"writ/internal/netns"
	"writ/internal/outbound"
)

// Timeout limits a call to the daemon. A client that waits for a message blocks the calls of all other clients, by
// default for a minute. So a slow call does not mean that the daemon is dead. For the same reason, this package never
// waits for messages.
const Timeout = 90 * time.Second

// maxAnswer limits the length of an answer, in bytes. An answer has some hundred bytes for each connected network.
const maxAnswer = 64 << 20

// Client calls the REST API of a mycelium daemon.
type Client struct {
	URL  string // "http://127.0.0.1:8989"
	HTTP *http.Client
}

// clientIn returns a client for a daemon in a network namespace, or in the namespace of this process if namespace is
// empty.
func clientIn(namespace, address string) *Client {
	transport := &http.Transport{DisableKeepAlives: true} // the daemon may be replaced between calls
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if namespace != "" {
			leave, err := netns.Enter(namespace)
			if err != nil {
				return nil, err
			}
			defer leave()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return &Client{URL: "http://" + address, HTTP: &http.Client{Transport: outbound.Final(transport), Timeout: Timeout}}
}

// Info identifies a daemon.
type Info struct {
	Subnet    netip.Prefix `json:"nodeSubnet"`
	PublicKey string       `json:"nodePubkey"` // hex
}

// Peer is a node to which the daemon is connected or tries to connect.
type Peer struct {
	Endpoint string `json:"endpoint"` // "tcp://192.0.2.7:9651"
	Type     string `json:"type"`     // static, linkLocalDiscovery, inbound
	State    string `json:"state"`    // alive, connecting, dead
	Sent     int64  `json:"sent"`     // bytes
	Received int64  `json:"received"` // bytes
}

// Alive reports whether the connection works.
func (p Peer) Alive() bool { return p.State == "alive" }

// Route is a route that the daemon has selected.
type Route struct {
	Subnet  netip.Prefix `json:"subnet"`
	NextHop string       `json:"next_hop"`
	Metric  int64        `json:"metric"` // lower is nearer; -1 means unreachable
}

// Info returns the identity of the daemon.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var info Info
	return info, c.call(ctx, http.MethodGet, "/admin", nil, &info)
}

// Peers lists the daemon's peers.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	var said []struct {
		Endpoint endpoint `json:"endpoint"`
		Type     string   `json:"type"`
		State    string   `json:"connectionState"`
		Sent     int64    `json:"txBytes"`
		Received int64    `json:"rxBytes"`
	}
	if err := c.call(ctx, http.MethodGet, "/admin/peers", nil, &said); err != nil {
		return nil, err
	}
	peers := make([]Peer, 0, len(said))
	for _, s := range said {
		peers = append(peers,
			Peer{Endpoint: string(s.Endpoint), Type: s.Type, State: s.State, Sent: s.Sent, Received: s.Received})
	}
	return peers, nil
}

// AddPeer makes the daemon connect to a peer. The daemon forgets the peer when it exits. A known peer is not an error.
func (c *Client) AddPeer(ctx context.Context, endpoint string) error {
	err := c.call(ctx, http.MethodPost, "/admin/peers", map[string]string{"endpoint": endpoint}, nil)
	return unless(err, http.StatusConflict)
}

// RemovePeer removes a peer from the daemon. An unknown peer is not an error.
func (c *Client) RemovePeer(ctx context.Context, endpoint string) error {
	return unless(c.call(ctx, http.MethodDelete, "/admin/peers/"+url.PathEscape(endpoint), nil, nil),
		http.StatusNotFound)
}

// Routes lists the selected routes.
func (c *Client) Routes(ctx context.Context) ([]Route, error) {
	var said []struct {
		Subnet  netip.Prefix `json:"subnet"`
		NextHop string       `json:"nextHop"`
		Metric  metric       `json:"metric"`
	}
	if err := c.call(ctx, http.MethodGet, "/admin/routes/selected", nil, &said); err != nil {
		return nil, err
	}
	routes := make([]Route, 0, len(said))
	for _, s := range said {
		routes = append(routes, Route{s.Subnet, s.NextHop, int64(s.Metric)})
	}
	return routes, nil
}

// StatusError is an answer of the daemon with an HTTP status other than 2xx.
type StatusError struct {
	Status int // HTTP status
	Text   string
}

// Error returns the status and the text of the daemon.
func (e *StatusError) Error() string {
	return fmt.Sprintf("mycelium returned status %d: %s", e.Status, strings.TrimSpace(e.Text))
}

func unless(err error, status int) error {
	if said, ok := errors.AsType[*StatusError](err); ok && said.Status == status {
		return nil
	}
	return err
}

func (c *Client) call(ctx context.Context, method, path string, body, answer any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.URL+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return fmt.Errorf("call mycelium: %w", err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("call mycelium: %w", err)
	}
	if response.StatusCode/100 != 2 {
		const most = 300 // bytes; the text becomes part of an error message
		return &StatusError{response.StatusCode, strings.ToValidUTF8(string(said[:min(len(said), most)]), "?")}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(said, answer); err != nil {
		return fmt.Errorf("mycelium returned an unknown format at %s: %w", path, err)
	}
	return nil
}

// endpoint is the address of a peer. Its format changed with version 0.7.6 of the daemon; both formats are supported.
type endpoint string

// UnmarshalJSON decodes {"proto","socketAddr"}, {"proto","addr":{"socket"}} and
// {"proto","addr":{"vsock":{"cid","port"}}}.
func (e *endpoint) UnmarshalJSON(text []byte) error {
	var said struct {
		Proto      string `json:"proto"`
		SocketAddr string `json:"socketAddr"`
		Addr       struct {
			Socket string `json:"socket"`
			VSock  *struct {
				CID  uint32 `json:"cid"`
				Port uint32 `json:"port"`
			} `json:"vsock"`
		} `json:"addr"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	address := said.SocketAddr + said.Addr.Socket
	if v := said.Addr.VSock; v != nil {
		address = fmt.Sprintf("%d:%d", v.CID, v.Port)
	}
	if said.Proto == "" || address == "" {
		return fmt.Errorf("%s is not a peer's address", text)
	}
	*e = endpoint(said.Proto + "://" + address)
	return nil
}

// metric is a number or the word infinite, which becomes -1.
type metric int64

// UnmarshalJSON implements json.Unmarshaler.
func (m *metric) UnmarshalJSON(text []byte) error {
	if string(text) == `"infinite"` {
		*m = -1
		return nil
	}
	return json.Unmarshal(text, (*int64)(m))
}
