package nodes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"writ"
)

const (
	pathBoots = "/v1/boots"
	// bootScheme starts the Authorization header of a report. The proof is in a header, so that the supervisor need not
	// read the body of an unknown client.
	bootScheme    = "Writ-Boot "
	maxCredential = 2 << 10
	// MaxBootList limits the list of a boot server, in bytes.
	MaxBootList = 8 << 20
)

// BootCredential proves that a list is from a boot server with a valid token. Proof is made with the token over
// identity.BootReportText.
type BootCredential struct {
	Token string      `json:"token"` // ID of the token, never its secret
	Nonce []byte      `json:"nonce"` // from BootNext
	Count int64       `json:"count"` // from BootNext, or larger
	List  writ.Digest `json:"list"`  // SHA-256 of the list
	Proof []byte      `json:"proof"`
}

// BootReports receives reports of boot servers. A Backend may implement it.
type BootReports interface {
	// BootNext returns the values for the next report with a token. An unknown client learns only the number of
	// reports.
	BootNext(ctx context.Context, token string) (BootNext, error)
	// ReportBoots stores a list. It returns CONFLICT if the credential does not match BootNext. After verifying the
	// credential, it calls read, which returns the list.
	ReportBoots(ctx context.Context, credential BootCredential, read func() ([]byte, error)) error
}

// BootNext holds the values that a report must contain. They prevent replays, even after a restart of the supervisor.
type BootNext struct {
	Nonce []byte `json:"nonce"` // created when the supervisor started
	Count int64  `json:"count"` // number that no report with this nonce has used
}

// boots returns the backend for reports of boot servers.
func (h *handler) boots() (BootReports, error) {
	if b, ok := h.backend.(BootReports); ok {
		return b, nil
	}
	return nil, writ.Errorf(writ.CodeNotFound, "this supervisor accepts no reports of boot servers")
}

func (h *handler) bootNext(r *http.Request) (any, error) {
	b, err := h.boots()
	if err != nil {
		return nil, err
	}
	return b.BootNext(r.Context(), chi.URLParam(r, "token"))
}

func (h *handler) bootReport(r *http.Request) (any, error) {
	b, err := h.boots()
	if err != nil {
		return nil, err
	}
	credential, err := credentialOf(r.Header.Get("Authorization"))
	if err != nil {
		return nil, err
	}
	return struct{}{}, b.ReportBoots(r.Context(), credential,
		func() ([]byte, error) { return readAll(r.Body, MaxBootList) })
}

func credentialOf(header string) (c BootCredential, err error) {
	text, ok := strings.CutPrefix(header, bootScheme)
	if !ok || len(text) > maxCredential {
		return c, writ.Errorf(writ.CodeTokenInvalid, "only a boot server may report booting machines").
			WithHint("create its token with `writ token create --role boot-server`")
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(plain, &c)
	}
	if err != nil {
		return c, writ.Errorf(writ.CodeBadRequest, "the credential of the boot server cannot be decoded")
	}
	return c, nil
}

func (c BootCredential) header() (string, error) {
	plain, err := json.Marshal(c)
	return bootScheme + base64.RawURLEncoding.EncodeToString(plain), err
}

func readAll(body io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(body, most+1))
	limited, busy := errors.AsType[*writ.Error](err)
	switch {
	case busy && limited.Code == writ.CodeRateLimited:
		return nil, limited
	case err != nil:
		return nil, writ.Errorf(writ.CodeBadRequest, "the request cannot be decoded: %v", err)
	case int64(len(text)) > most:
		return nil, writ.Errorf(writ.CodeTooLarge, "the request has more than %d bytes", most)
	}
	return text, nil
}

var _ BootReports = (*Client)(nil)

// BootNext implements BootReports.
func (c *Client) BootNext(ctx context.Context, token string) (BootNext, error) {
	body, err := c.do(ctx, http.MethodGet, pathBoots+"/"+url.PathEscape(token), nil, maxPayload)
	if err != nil {
		return BootNext{}, err
	}
	return read[BootNext](c, body)
}

// ReportBoots implements BootReports.
func (c *Client) ReportBoots(ctx context.Context, credential BootCredential, read func() ([]byte, error)) error {
	header, err := credential.header()
	if err != nil {
		return err
	}
	list, err := read()
	if err == nil {
		_, err = c.send(ctx, http.MethodPost, pathBoots, http.Header{"Authorization": {header}}, list, maxPayload)
	}
	return err
}
