package outbound

import (
	"errors"
	"net/http"
)

// ErrSwitched is the error for an answer with the status 101 to a request for no other protocol.
var ErrSwitched = errors.New("the server switches to another protocol, which was not requested")

// Final returns a RoundTripper that fails with ErrSwitched if a server switches to another protocol without a request for
// it. Package net/http would give the connection to the reader of the body. Neither the context nor the timeout of a
// client ends such a read. Requests with the header Upgrade may get the status 101; their sender must limit its reads.
func Final(by http.RoundTripper) http.RoundTripper { return final{by} }

type final struct{ http.RoundTripper }

func (f final) RoundTrip(q *http.Request) (*http.Response, error) {
	answer, err := f.RoundTripper.RoundTrip(q)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols || q.Header.Get("Upgrade") != "" {
		return answer, err
	}
	_ = answer.Body.Close()
	return nil, ErrSwitched
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the transport.
func (f final) CloseIdleConnections() {
	if c, ok := f.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
