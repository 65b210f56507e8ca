package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"

	"writ"
)

// NonceSize is the length of the nonces of joins, links and registrations, in bytes.
const NonceSize = 32

// NewChallenge returns a random nonce of NonceSize bytes. The other side must sign its answer together with the nonce.
func NewChallenge() []byte {
	nonce := make([]byte, NonceSize)
	_, _ = rand.Read(nonce) // never fails
	return nonce
}

// Joiner is the information that a machine sends when it joins. The claim (JoinClaimText) covers all fields.
type Joiner struct {
	Token  string // id of the token; "" for a node that waits for an approval
	Name   string
	Key    ed25519.PublicKey
	AgeKey string // age recipient, may be empty
	Serial string // serial number of the machine, may be empty; sent only with the claim
	Nonce  []byte // NonceSize random bytes
}

// JoinProofText is signed by the supervisor to prove its identity to a joiner. It covers both nonces, the joiner's key
// and the token's id.
func JoinProofText(joiner Joiner, supervisorNonce []byte) []byte {
	return frame("writ-join-v1", joiner.Nonce, supervisorNonce, joiner.Key, []byte(joiner.Token))
}

// JoinClaimText is the text for the joiner's token proof (Token.Prove) and its own signature, after the supervisor has
// proved its identity.
func JoinClaimText(joiner Joiner, supervisorNonce []byte) []byte {
	purpose := "writ-claim-v1"
	parts := [][]byte{
		joiner.Nonce, supervisorNonce, joiner.Key, []byte(joiner.AgeKey), []byte(joiner.Token), []byte(joiner.Name),
	}
	if joiner.Serial != "" {
		purpose, parts = "writ-claim-v2", append(parts, []byte(joiner.Serial))
	}
	return frame(purpose, parts...)
}

// RegistrationText is the text for the token proof of a supervisor that is not in the roster yet. The person who
// created the token verifies the proof with `writ dc add`, and signs the key into the roster.
func RegistrationText(token, name string, key ed25519.PublicKey, nonce []byte) []byte {
	return frame("writ-register-v1", []byte(token), []byte(name), key, nonce)
}

// BootReportText is the text for the token proof of a boot server's report of starting machines. The proof is valid
// only for one list of machines, as report number count, in the supervisor's term that the nonce identifies.
func BootReportText(token string, datacenter writ.DatacenterID, nonce []byte, count int64, list writ.Digest) []byte {
	return frame("writ-boot-report-v1", []byte(token), []byte(datacenter), nonce,
		binary.BigEndian.AppendUint64(nil, uint64(count)), list[:])
}

// LinkHelloText is signed by a supervisor to prove its identity to a coordinator.
func LinkHelloText(nonce []byte, coordinatorURL string, datacenter writ.DatacenterID, journal string) []byte {
	return frame("writ-link-v1", nonce, []byte(coordinatorURL), []byte(datacenter), []byte(journal))
}

// frame encodes a purpose and parts unambiguously: a zero byte ends the purpose, and the length of each part precedes
// it, as 4 bytes big-endian.
func frame(purpose string, parts ...[]byte) []byte {
	b := append([]byte(purpose), 0)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return b
}

// VerifyJoinProof checks for a joiner that the supervisor of an enabled datacenter in the roster signed JoinProofText.
// It returns this datacenter, or SIGNATURE_INVALID. The joiner must verify the roster against its pin before this
// check, and may use its token only after it.
func VerifyJoinProof(roster *Roster, joiner Joiner, supervisorNonce, signature []byte) (*Datacenter, error) {
	if len(supervisorNonce) != NonceSize {
		return nil, writ.Errorf(writ.CodeSignatureInvalid, "the supervisor's nonce has %d bytes, not %d",
			len(supervisorNonce), NonceSize)
	}
	text := JoinProofText(joiner, supervisorNonce)
	for i := range roster.Datacenters {
		d := &roster.Datacenters[i]
		if d.Enabled && ed25519.Verify(d.SupervisorKey, text, signature) {
			return d, nil
		}
	}
	return nil, writ.Errorf(writ.CodeSignatureInvalid,
		"no enabled datacenter in the roster has the supervisor's key").
		WithHint("check the address; `writ dc list` shows the datacenters")
}

// VerifyJoinClaim checks for a supervisor that the joiner has the private key of joiner.Key and, if joiner.Token is
// set, the token. key is the stored key of that token. The error is TOKEN_INVALID or SIGNATURE_INVALID.
func VerifyJoinClaim(joiner Joiner, supervisorNonce []byte, key TokenKey, proof, signature []byte) error {
	if len(joiner.Key) != ed25519.PublicKeySize || len(joiner.Nonce) != NonceSize || len(supervisorNonce) != NonceSize {
		return writ.Errorf(writ.CodeSignatureInvalid, "the joiner's key or a nonce has the wrong length")
	}
	text := JoinClaimText(joiner, supervisorNonce)
	if !ed25519.Verify(joiner.Key, text, signature) {
		return writ.Errorf(writ.CodeSignatureInvalid, "the joining process did not prove that it has the key in its request")
	}
	if joiner.Token != "" && !key.Verify(text, proof) {
		return writ.Errorf(writ.CodeTokenInvalid, "the proof of the join token is wrong").
			WithHint("create another token with `writ token create`")
	}
	return nil
}
