package identity

import (
	"crypto/ed25519"
	"encoding/binary"

	"writ"
)

// NonceSize is the length of the nonces of joins, links and registrations.
const NonceSize = 32

// Joiner is what a machine says of itself when it joins; every proof covers all of it.
type Joiner struct {
	Token  string // the token's id; "" if it has none and asks to be admitted by a statement
	Name   string
	Key    ed25519.PublicKey
	AgeKey string // age recipient, "" if it has none
	Serial string // number of its machine, "" if it does not say; it says so in its claim only
	Nonce  []byte // NonceSize random bytes
}

// JoinProofText is what a supervisor signs to prove itself to a joiner: both nonces, the joiner's key and the token's id.
func JoinProofText(joiner Joiner, supervisorNonce []byte) []byte {
	return frame("writ-join-v1", joiner.Nonce, supervisorNonce, joiner.Key, []byte(joiner.Token))
}

// JoinClaimText is what a joiner proves its token over (Token.Prove) and signs with its own key, once the supervisor has proved
// itself.
func JoinClaimText(joiner Joiner, supervisorNonce []byte) []byte {
	purpose := "writ-claim-v1"
	parts := [][]byte{joiner.Nonce, supervisorNonce, joiner.Key, []byte(joiner.AgeKey), []byte(joiner.Token), []byte(joiner.Name)}
	if joiner.Serial != "" {
		purpose, parts = "writ-claim-v2", append(parts, []byte(joiner.Serial))
	}
	return frame(purpose, parts...)
}

// RegistrationText is what a supervisor without a place in the roster proves its token over; the person at `writ dc add`, who made
// the token, verifies it and signs the key into the roster.
func RegistrationText(token, name string, key ed25519.PublicKey, nonce []byte) []byte {
	return frame("writ-register-v1", []byte(token), []byte(name), key, nonce)
}

// BootReportText is what a boot server proves its token over when it reports which machines start: to one term of the supervisor of one
// datacenter, by the nonce of that, in an order, and with one list.
func BootReportText(token string, datacenter writ.DatacenterID, nonce []byte, count int64, list writ.Digest) []byte {
	return frame("writ-boot-report-v1", []byte(token), []byte(datacenter), nonce, binary.BigEndian.AppendUint64(nil, uint64(count)), list[:])
}

// LinkHelloText is what a supervisor signs to prove itself to a coordinator.
func LinkHelloText(nonce []byte, coordinatorURL string, datacenter writ.DatacenterID, journal string) []byte {
	return frame("writ-link-v1", nonce, []byte(coordinatorURL), []byte(datacenter), []byte(journal))
}

// frame writes a purpose and parts so that no two lists of parts give the same bytes: the purpose ends with a zero byte, and each part
// stands behind its length, 4 bytes big-endian.
func frame(purpose string, parts ...[]byte) []byte {
	b := append([]byte(purpose), 0)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return b
}

// VerifyJoinProof is the joiner's side. It checks that the supervisor of a datacenter in the roster signed JoinProofText,
// and returns this datacenter. The joiner must have verified the roster from its pin, and may use its token only after
// this call.
func VerifyJoinProof(roster *Roster, joiner Joiner, supervisorNonce, signature []byte) (*Datacenter, error) {
	if len(supervisorNonce) != NonceSize {
		return nil, writ.Errorf(writ.CodeSignatureInvalid, "the supervisor's nonce has %d bytes, not %d", len(supervisorNonce), NonceSize)
	}
	text := JoinProofText(joiner, supervisorNonce)
	for i := range roster.Datacenters {
		d := &roster.Datacenters[i]
		if d.Enabled && ed25519.Verify(d.SupervisorKey, text, signature) {
			return d, nil
		}
	}
	return nil, writ.Errorf(writ.CodeSignatureInvalid, "the supervisor's key is not the one of any enabled datacenter in the roster").
		WithHint("check the address; `writ dc list` shows the datacenters")
}

// VerifyJoinClaim is the supervisor's side: the joiner has the private key that it names, and the token if it names one. key is what
// the store keeps of that token; it is ignored if the joiner names none. The error has the code TOKEN_INVALID or SIGNATURE_INVALID.
func VerifyJoinClaim(joiner Joiner, supervisorNonce []byte, key TokenKey, proof, signature []byte) error {
	if len(joiner.Key) != ed25519.PublicKeySize || len(joiner.Nonce) != NonceSize || len(supervisorNonce) != NonceSize {
		return writ.Errorf(writ.CodeSignatureInvalid, "the joiner's key or a nonce has the wrong length")
	}
	text := JoinClaimText(joiner, supervisorNonce)
	if !ed25519.Verify(joiner.Key, text, signature) {
		return writ.Errorf(writ.CodeSignatureInvalid, "the joiner does not have the key that it names")
	}
	if joiner.Token != "" && !key.Verify(text, proof) {
		return writ.Errorf(writ.CodeTokenInvalid, "the proof of the join token is wrong").WithHint("make another token with `writ token create`")
	}
	return nil
}
