package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/identity/header"
	"writ/internal/lazyregexp"
)

const (
	tokenPrefix    = "writ2"
	oldTokenPrefix = "writ1" // contained neither datacenter nor roster
	// TokenValidity is the default validity of a token.
	TokenValidity = time.Hour
	// MaxTokenValidity limits the validity of a token.
	MaxTokenValidity = 24 * time.Hour
	// BootTokenValidity is the default validity of a boot server's token.
	BootTokenValidity = 90 * 24 * time.Hour
	// MaxBootTokenValidity limits the validity of a boot server's token.
	MaxBootTokenValidity = 366 * 24 * time.Hour
	// TokenRoleNode is the role of a token that admits nodes.
	TokenRoleNode = "node"
	// TokenRoleBoot is the role of a token that admits no nodes. A boot server uses it to report the machines that
	// start.
	TokenRoleBoot = "boot-server"
)

// Token admits a machine. With the role TokenRoleBoot it lets a boot server send reports. To join, a machine needs only
// the text of the token. With the text, it also verifies the cluster before it proves the token.
type Token struct {
	ID     string
	Secret [32]byte
	Pin    writ.ClusterID
	// Datacenter is the datacenter that the token admits to; "" for a supervisor that requests a place in the roster.
	Datacenter   writ.DatacenterID
	Roster       int // version that the creator saw; 0 if Datacenter is empty
	RosterDigest writ.Digest
}

// For binds a new token to a datacenter and to the roster that its creator saw.
func (t Token) For(datacenter writ.DatacenterID, roster *Roster) (Token, error) {
	digest, err := roster.Digest()
	if err != nil {
		return Token{}, err
	}
	t.Datacenter, t.Roster, t.RosterDigest = datacenter, roster.Version, digest
	return t, nil
}

// Admits checks that the token is for the datacenter whose supervisor proved its identity, and that the verified chain
// contains the roster that the token's creator saw. A joiner calls it before it proves the token.
func (t Token) Admits(roster *Roster, d *Datacenter) error {
	switch {
	case t.Datacenter == "":
		return writ.Errorf(writ.CodeTokenInvalid,
			"the token is for a supervisor that asks for a place in the roster, not for a node").
			WithHint("make one with `writ token create --dc %s`", d.Name)
	case t.Datacenter != d.ID:
		return writ.Errorf(writ.CodeWrongDatacenter, "the token admits to the datacenter %s, the address leads to %s",
			DatacenterName(roster, t.Datacenter), d.Name).
			WithHint("use the address of that datacenter's supervisor, or create a token with `writ token create --dc %s`",
				d.Name)
	case roster.Version < t.Roster:
		return writ.Errorf(writ.CodeRosterTooOld,
			"the token was made at version %d of the roster, the supervisor has version %d", t.Roster, roster.Version).
			WithHint("wait until the supervisor has the newer roster")
	}
	return roster.Chain().CheckSeen(t.Roster, t.RosterDigest)
}

// TokenKey is the stored form of a token: the ed25519 public key derived from its secret. It verifies proofs of the
// token, but cannot create them. It may therefore pass through a coordinator and be stored in a journal.
type TokenKey [ed25519.PublicKeySize]byte

// String returns the key as 64 hex digits.
func (k TokenKey) String() string { return hex.EncodeToString(k[:]) }

// ParseTokenKey parses 64 lower-case hex digits.
func ParseTokenKey(s string) (TokenKey, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(TokenKey{}) || strings.ToLower(s) != s {
		return TokenKey{}, errors.New("the key of a token has 64 hex digits")
	}
	return TokenKey(b), nil
}

// Verify reports whether proof is a proof of the token over text. The zero key, which a store may return for an unknown
// token, verifies nothing. As an ed25519 key it would accept signatures that anyone can create.
func (k TokenKey) Verify(text, proof []byte) bool {
	return k != TokenKey{} && ed25519.Verify(k[:], tokenText(text), proof)
}

// NewToken returns a new token for a cluster.
func NewToken(pin writ.ClusterID) Token {
	t := Token{ID: newID(), Pin: pin}
	_, _ = rand.Read(t.Secret[:]) // never fails
	return t
}

// newID returns the id of a new token or batch.
func newID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return tokenIDEncoding.EncodeToString(id[:])
}

// String formats the token for copying: "writ2.<id>.<secret>.<pin>.<datacenter>.<version>.<digest>", with "-", "0" and
// "-" for missing values. It contains the secret.
func (t Token) String() string {
	return strings.Join([]string{
		tokenPrefix, t.ID, base64.RawURLEncoding.EncodeToString(t.Secret[:]), string(t.Pin),
		header.OrDash(string(t.Datacenter)), strconv.Itoa(t.Roster),
		header.DigestOrDash(t.RosterDigest),
	}, ".")
}

// ParseToken is the inverse of String. The error is TOKEN_INVALID and does not contain the token.
func ParseToken(s string) (Token, error) {
	parts := strings.Split(strings.TrimSpace(s), ".")
	if parts[0] == oldTokenPrefix {
		return Token{}, writ.Errorf(writ.CodeTokenInvalid,
			"the token is from an earlier version of writ and does not name its datacenter").
			WithHint("create another one with this version")
	}
	if len(parts) != 7 || parts[0] != tokenPrefix || !ValidTokenID(parts[1]) || !clusterPattern.MatchString(parts[3]) {
		return Token{}, badToken()
	}
	secret, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil || len(secret) != len(Token{}.Secret) || strings.ContainsAny(parts[2], "\r\n") {
		return Token{}, badToken()
	}
	t := Token{
		ID: parts[1], Secret: [32]byte(secret), Pin: writ.ClusterID(parts[3]),
		Datacenter: writ.DatacenterID(header.FromDash(parts[4])),
	}
	if t.Datacenter != "" {
		if !writ.ValidUUID(string(t.Datacenter)) {
			return Token{}, badToken()
		}
		if t.Roster, err = strconv.Atoi(parts[5]); err != nil {
			return Token{}, badToken()
		}
		if t.RosterDigest, err = writ.ParseDigest(parts[6]); err != nil || t.RosterDigest.IsZero() || t.Roster < 1 ||
			t.Roster > maxRosterVersion {
			return Token{}, badToken()
		}
	}
	if t.String() != strings.TrimSpace(s) {
		return Token{}, badToken()
	}
	return t, nil
}

func badToken() *writ.Error {
	return writ.Errorf(writ.CodeTokenInvalid, "this is not a join token, or a part of it is missing").
		WithHint("a token looks like %s.<id>.<secret>.<pin>.<datacenter>.<version>.<digest>, in one piece", tokenPrefix)
}

// Key returns the stored form of the token.
func (t Token) Key() TokenKey { return TokenKey(t.signer().Public().(ed25519.PublicKey)) }

// Prove returns a proof of the token: a signature over text that Key's Verify accepts.
func (t Token) Prove(text []byte) []byte { return ed25519.Sign(t.signer(), tokenText(text)) }

func (t Token) signer() ed25519.PrivateKey {
	seed := sha256.Sum256(frame("writ-token-v1", t.Secret[:]))
	return ed25519.NewKeyFromSeed(seed[:])
}

func tokenText(text []byte) []byte { return frame("writ-token-proof-v1", text) }

var (
	tokenIDEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	tokenIDPattern  = lazyregexp.New(`^[a-z2-7]{12}[acegikmoqsuwy246]$`) // 64 bits: the last character encodes four
)

// ValidTokenID reports whether id is a valid id of a token.
func ValidTokenID(id string) bool { return tokenIDPattern.MatchString(id) }

// DecisionRevoke ends a token or a batch.
const DecisionRevoke = "revoke"

// TokenGrant is the content of a "create" statement about a token.
type TokenGrant struct {
	ID      string
	Key     TokenKey
	Role    string // TokenRoleNode or TokenRoleBoot
	Expires time.Time
	Uses    int // number of nodes that it admits, at most writ.MaxTokenUses; 0 means 1, or none for TokenRoleBoot
}

// MaxTokenValidityOf returns the longest validity of a token with a role, or 0 for an unknown role.
func MaxTokenValidityOf(role string) time.Duration {
	switch role {
	case TokenRoleNode:
		return MaxTokenValidity
	case TokenRoleBoot:
		return MaxBootTokenValidity
	}
	return 0
}

// Statement sets the subject, decision and parameters of a statement that creates the token.
func (g TokenGrant) Statement(s *Statement) {
	s.Subject = "token/" + g.ID
	s.Decision = "create"
	s.Params = map[string]any{"expires": header.FormatTime(g.Expires), "key": g.Key.String(), "role": g.Role}
	if g.Uses > 1 { // the default is omitted
		s.Params["uses"] = int64(g.Uses)
	}
}

// ParseTokenGrant parses the grant in a statement that creates a token.
func ParseTokenGrant(s *Statement) (TokenGrant, error) {
	g := TokenGrant{ID: s.ID()}
	var key, expires string
	for name, at := range map[string]*string{"key": &key, "role": &g.Role, "expires": &expires} {
		v, ok := s.Params[name].(string)
		if !ok {
			return TokenGrant{}, header.Malformed("a token needs the parameter %q", name)
		}
		*at = v
	}
	most := MaxTokenValidityOf(g.Role)
	if most == 0 {
		return TokenGrant{}, header.Malformed("%q is not a role of tokens", header.Clip(g.Role))
	}
	g.Uses = 1
	if said, has := s.Params["uses"]; has {
		uses, ok := said.(int64)
		if !ok || uses < 2 || uses > writ.MaxTokenUses {
			return TokenGrant{}, header.Malformed("the parameter uses must be between 2 and %d", writ.MaxTokenUses)
		}
		g.Uses = int(uses)
	}
	if extra := len(s.Params) - 3; extra > 1 || extra == 1 && g.Uses == 1 {
		return TokenGrant{}, header.Malformed("a token has only the parameters expires, key, role and uses")
	}
	if g.Role == TokenRoleBoot {
		if g.Uses != 1 {
			return TokenGrant{}, header.Malformed("a token of a boot server admits no node")
		}
		g.Uses = 0
	}
	var err error
	if g.Key, err = ParseTokenKey(key); err != nil {
		return TokenGrant{}, err
	}
	if g.Expires, err = time.Parse(header.TimeFormat, expires); err != nil {
		return TokenGrant{}, header.Malformed("%q is not a time", header.Clip(expires))
	}
	switch life := g.Expires.Sub(s.Created); {
	case life <= 0:
		return TokenGrant{}, header.Malformed("the token expires before its statement was made")
	case life > most:
		return TokenGrant{},
			header.Malformed("a token of the role %s can be used for at most %s after the statement was made", g.Role, most)
	}
	return g, nil
}
