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
)

// Timeout is for how long a call of the daemon may take. Whoever waits there for a message holds up everybody else who calls, for a minute
// by usual settings; a call that takes long is no sign of death. For the same reason nothing here waits for messages.
const Timeout = 90 * time.Second

// maxAnswer is how much of an answer is read, in bytes: a node knows some hundred bytes of each network that is connected.
const maxAnswer = 64 << 20

// Client speaks with a daemon of mycelium, by its REST API.
type Client struct {
	URL  string // "http://127.0.0.1:8989"
	HTTP *http.Client
}

// clientIn returns a client of a daemon in a network namespace, the process's own if netns is empty.
func clientIn(namespace, address string) *Client {
	transport := &http.Transport{DisableKeepAlives: true} // there may be another daemon the next time
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
	return &Client{URL: "http://" + address, HTTP: &http.Client{Transport: transport, Timeout: Timeout}}
}

// Info is what a daemon says of itself.
type Info struct {
	Subnet    netip.Prefix `json:"nodeSubnet"`
	PublicKey string       `json:"nodePubkey"` // hex
}

// Peer is a node that the daemon is connected to, or tries to be.
type Peer struct {
	Endpoint string `json:"endpoint"` // "tcp://192.0.2.7:9651"
	Type     string `json:"type"`     // static, linkLocalDiscovery, inbound
	State    string `json:"state"`    // alive, connecting, dead
	Sent     int64  `json:"sent"`     // bytes
	Received int64  `json:"received"` // bytes
}

// Alive reports whether packets go to and fro.
func (p Peer) Alive() bool { return p.State == "alive" }

// Route is a way to a range of addresses that the daemon has chosen.
type Route struct {
	Subnet  netip.Prefix `json:"subnet"`
	NextHop string       `json:"next_hop"`
	Metric  int64        `json:"metric"` // less is nearer; -1 if there is no way any more
}

// Info asks who the daemon is.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var info Info
	return info, c.call(ctx, http.MethodGet, "/admin", nil, &info)
}

// Peers lists whom the daemon knows.
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
		peers = append(peers, Peer{Endpoint: string(s.Endpoint), Type: s.Type, State: s.State, Sent: s.Sent, Received: s.Received})
	}
	return peers, nil
}

// AddPeer lets the daemon connect to another one, until it ends. One that it knows is no error.
func (c *Client) AddPeer(ctx context.Context, endpoint string) error {
	err := c.call(ctx, http.MethodPost, "/admin/peers", map[string]string{"endpoint": endpoint}, nil)
	return unless(err, http.StatusConflict)
}

// RemovePeer lets the daemon forget another one. One that it does not know is no error.
func (c *Client) RemovePeer(ctx context.Context, endpoint string) error {
	return unless(c.call(ctx, http.MethodDelete, "/admin/peers/"+url.PathEscape(endpoint), nil, nil), http.StatusNotFound)
}

// Routes lists the ways that the daemon has chosen.
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

// StatusError is an answer of the daemon that is none.
type StatusError struct {
	Status int // of HTTP
	Text   string
}

// Error says what the daemon said.
func (e *StatusError) Error() string {
	return fmt.Sprintf("mycelium answers %d: %s", e.Status, strings.TrimSpace(e.Text))
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
		return fmt.Errorf("ask mycelium: %w", err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask mycelium: %w", err)
	}
	if response.StatusCode/100 != 2 {
		const most = 300 // bytes of what is no answer; it becomes part of sentences
		return &StatusError{response.StatusCode, strings.ToValidUTF8(string(said[:min(len(said), most)]), "?")}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(said, answer); err != nil {
		return fmt.Errorf("mycelium answers in another form at %s: %w", path, err)
	}
	return nil
}

// endpoint is where a peer is. Its form has changed with version 0.7.6; both are read.
type endpoint string

// UnmarshalJSON reads {"proto","socketAddr"}, {"proto","addr":{"socket"}} and {"proto","addr":{"vsock":{"cid","port"}}}.
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
		return fmt.Errorf("%s is not where a peer is", text)
	}
	*e = endpoint(said.Proto + "://" + address)
	return nil
}

// metric is a number or the word infinite.
type metric int64

// UnmarshalJSON reads it.
func (m *metric) UnmarshalJSON(text []byte) error {
	if string(text) == `"infinite"` {
		*m = -1
		return nil
	}
	return json.Unmarshal(text, (*int64)(m))
}
