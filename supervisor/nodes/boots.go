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
	// bootScheme begins the header Authorization of a report. The proof is there, so that a stranger's list is not even read.
	bootScheme    = "Writ-Boot "
	maxCredential = 2 << 10
	// MaxBootList bounds the list of a boot server, in bytes.
	MaxBootList = 8 << 20
)

// BootCredential proves that a list is of a boot server whose token the datacenter knows: by the token, over identity.BootReportText.
type BootCredential struct {
	Token string      `json:"token"` // its id, never its secret
	Nonce []byte      `json:"nonce"` // as BootNext says
	Count int64       `json:"count"` // as BootNext says, or a later one
	List  writ.Digest `json:"list"`  // SHA-256 of the list
	Proof []byte      `json:"proof"`
}

// BootReports takes what boot servers say of machines that start. It is what a Backend may be besides.
type BootReports interface {
	// BootNext returns what the next report with a token is to name. It tells strangers only how many reports there were.
	BootNext(ctx context.Context, token string) (BootNext, error)
	// ReportBoots takes a list. It is CONFLICT if the credential is not of BootNext. read is called once the credential has been verified.
	ReportBoots(ctx context.Context, credential BootCredential, read func() ([]byte, error)) error
}

// BootNext is what a report is to name. So none can be taken twice, also by a supervisor that was started again.
type BootNext struct {
	Nonce []byte `json:"nonce"` // of the supervisor, since it was started
	Count int64  `json:"count"` // a number that no report with this nonce has had
}

// boots returns who takes reports of boot servers.
func (h *handler) boots() (BootReports, error) {
	if b, ok := h.backend.(BootReports); ok {
		return b, nil
	}
	return nil, writ.Errorf(writ.CodeNotFound, "no boot server reports here")
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
	return struct{}{}, b.ReportBoots(r.Context(), credential, func() ([]byte, error) { return readAll(r.Body, MaxBootList) })
}

func credentialOf(header string) (c BootCredential, err error) {
	text, ok := strings.CutPrefix(header, bootScheme)
	if !ok || len(text) > maxCredential {
		return c, writ.Errorf(writ.CodeTokenInvalid, "only a boot server may report which machines start").WithHint("`writ token create --role boot-server` makes its token")
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(plain, &c)
	}
	if err != nil {
		return c, writ.Errorf(writ.CodeBadRequest, "the credential of a boot server cannot be read")
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
		return nil, writ.Errorf(writ.CodeBadRequest, "the request cannot be read: %v", err)
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
