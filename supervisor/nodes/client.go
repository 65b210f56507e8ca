package nodes

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"writ"
)

const (
	// clientTimeout limits one request, unless the caller's context ends first.
	clientTimeout = 30 * time.Second
	// Limits of answers in bytes: a page of rosters in base64, a submission of at most 512 KiB, and any other answer.
	maxRosters = 4 << 20
	maxPayload = 1 << 20
	maxAnswer  = 1 << 20
)

// Client is the node's side of the node API. It sends each request once; the caller must retry. It returns the
// supervisor's error, UNREACHABLE without an answer, or the context's error if the caller cancelled the context.
type Client struct {
	URL  string       // URL of the node API, "http://10.0.0.1:7441"
	HTTP *http.Client // http.DefaultClient if nil
}

var _ Backend = (*Client)(nil)

// Greet implements Backend.
func (c *Client) Greet(ctx context.Context, hello Hello) (Proof, error) {
	return post[Proof](ctx, c, pathHello, hello)
}

// Admit implements Backend.
func (c *Client) Admit(ctx context.Context, claim Claim) (Welcome, error) {
	return post[Welcome](ctx, c, pathClaim, claim)
}

// Rosters implements Backend.
func (c *Client) Rosters(ctx context.Context, after int) ([][]byte, error) {
	body, err := c.do(ctx, http.MethodGet, pathRosters+"?after="+strconv.Itoa(after), nil, maxRosters)
	if err != nil {
		return nil, err
	}
	return read[[][]byte](c, body)
}

// Payload implements Backend.
func (c *Client) Payload(ctx context.Context, digest writ.Digest) ([]byte, error) {
	return c.do(ctx, http.MethodGet, pathPayloads+digest.String(), nil, maxPayload)
}

// Account implements Backend.
func (c *Client) Account(ctx context.Context, node writ.NodeID, asked []byte) ([]byte, error) {
	query := ""
	if asked != nil {
		query = "?asked=" + base64.RawURLEncoding.EncodeToString(asked)
	}
	return c.do(ctx, http.MethodGet, pathAccounts+url.PathEscape(string(node))+query, nil, maxPayload)
}

// Standing implements Backend.
func (c *Client) Standing(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	return c.do(ctx, http.MethodGet, pathNodes+url.PathEscape(string(node))+"?nonce="+hex.EncodeToString(nonce), nil,
		maxPayload)
}

// Fence implements Backend.
func (c *Client) Fence(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	return c.do(ctx, http.MethodGet, pathNodes+url.PathEscape(string(node))+pathFence+"?nonce="+hex.EncodeToString(nonce),
		nil, maxPayload)
}

// Fenced implements Backend.
func (c *Client) Fenced(ctx context.Context, node writ.NodeID, signed []byte) error {
	_, err := post[struct{}](ctx, c, pathNodes+url.PathEscape(string(node))+pathFence, fenced{signed})
	return err
}

func post[T any](ctx context.Context, c *Client, path string, v any) (T, error) {
	var none T
	text, err := json.Marshal(v)
	if err != nil {
		return none, fmt.Errorf("encode the request: %w", err)
	}
	body, err := c.do(ctx, http.MethodPost, path, text, maxAnswer)
	if err != nil {
		return none, err
	}
	return read[T](c, body)
}

func read[T any](c *Client, body []byte) (T, error) {
	var v T
	if err := json.Unmarshal(body, &v); err != nil { // unknown fields of a newer supervisor are ignored
		return v, c.strange(fmt.Sprintf("its answer cannot be decoded: %v", err))
	}
	return v, nil
}

// do sends one request and returns the body of its answer. A body of more than `most` bytes is an error.
func (c *Client) do(ctx context.Context, method, path string, text []byte, most int64) ([]byte, error) {
	return c.send(ctx, method, path, http.Header{}, text, most)
}

// send is like do, with request headers.
func (c *Client) send(
	ctx context.Context, method, path string, header http.Header, text []byte, most int64,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, bytes.NewReader(text))
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "%q is not the address of a supervisor's node API", c.URL).
			WithHint("use an address like http://127.0.0.1:7441")
	}
	request.Header = header
	request.Header.Set("Content-Type", "application/json")
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if int64(len(body)) > most {
		return nil, c.strange(fmt.Sprintf("its answer has more than %d bytes", most))
	}
	if response.StatusCode != http.StatusOK {
		return nil, c.refused(response, body)
	}
	return body, nil
}

// refused converts a problem back to the supervisor's error.
func (c *Client) refused(response *http.Response, body []byte) error {
	var p problem
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind != "application/problem+json" || json.Unmarshal(body, &p) != nil || p.Code == "" {
		return c.strange("it answered " + statusText(response.StatusCode))
	}
	if p.Code == writ.CodeInternal {
		p.Hint = "the supervisor's log has the cause, under request " + p.RequestID
	}
	return writ.Errorf(p.Code, "%s", p.Detail).WithHint("%s", p.Hint)
}

func (c *Client) unreachable(ctx context.Context, cause error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	// The server could not be authenticated as the supervisor, so its answer does not count.
	if known, ok := errors.AsType[*writ.Error](cause); ok {
		return &writ.Error{
			Code: writ.CodeUnreachable, Message: fmt.Sprintf("the node API at %s: %s", c.URL, known.Message), Hint: known.Hint,
			Err: known,
		}
	}
	return &writ.Error{
		Code: writ.CodeUnreachable, Message: fmt.Sprintf("the supervisor's node API at %s does not answer", c.URL),
		Hint: "check the address and whether the supervisor runs", Err: cause,
	}
}

func (c *Client) strange(what string) error {
	return writ.Errorf(writ.CodeUnreachable, "%s is not the node API of a supervisor: %s", c.URL, what)
}
