package identity

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"pgregory.net/rapid"

	"writ"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
)

func TestTokenSurvivesBeingCopied(t *testing.T) {
	for i := range 100 {
		want := NewToken(testCluster())
		if i%2 == 0 {
			var err error
			if want, err = want.For(viennaID, testRoster()); err != nil {
				t.Fatal(err)
			}
		}
		have, err := ParseToken(" " + want.String() + "\n")
		if err != nil {
			t.Fatal(err)
		}
		if have != want {
			t.Fatalf("got %v, want %v", have, want)
		}
	}
}

func TestParseTokenRefuses(t *testing.T) {
	token, err := NewToken(testCluster()).For(viennaID, testRoster())
	if err != nil {
		t.Fatal(err)
	}
	good := strings.Split(token.String(), ".")
	with := func(i int, s string) string {
		p := append([]string(nil), good...)
		p[i] = s
		return strings.Join(p, ".")
	}
	for _, bad := range []string{
		"", "writ2", with(0, "writ1"), with(0, "writ3"), strings.Join(good[:4], "."), "writ1." + strings.Join(good[1:4], "."),
		with(4, "vienna"), with(4, ""), with(4, "-"), with(5, "0"), with(5, "01"), with(5, ""), with(6, "-"), with(6, "00"), with(6, strings.Repeat("0", 64)),
		with(1, "abc"), with(1, "aaaaaaaaaaaab"), with(1, strings.ToUpper(good[1])), with(2, good[2][1:]),
		with(2, good[2]+"AAAA"), with(2, good[2][:42]+"_"), with(2, good[2][:20]+"\n"+good[2][20:]), with(3, "00"), with(3, strings.ToUpper(good[3])),
		token.String() + ".x",
	} {
		_, err := ParseToken(bad)
		wantCode(t, err, writ.CodeTokenInvalid)
		if err != nil && strings.Contains(err.Error(), good[2]) {
			t.Errorf("the error contains the secret: %v", err)
		}
	}
}

// A token admits to one datacenter. A joiner checks this before it proves the token.
//
// Promise: Signatures and rosters: A join token admits a node to exactly one datacenter.
// How: It names the datacenter and its maker's roster; the joining machine compares both with the supervisor's proof
// before it uses the token.
// Also: TestTokenIsUsedAfterSupervisorProof.
func TestTokenAdmitsOnlyToItsDatacenter(t *testing.T) {
	roster := testVerifier(t).Roster
	token, err := NewToken(testCluster()).For(viennaID, roster)
	if err != nil {
		t.Fatal(err)
	}
	later, fork := token, token
	later.Roster++
	fork.RosterDigest = writ.DigestOf([]byte("another roster of this version"))
	for name, tt := range map[string]struct {
		token Token
		to    writ.DatacenterID
		want  writ.Code
	}{
		"its own":           {token, viennaID, ""},
		"another":           {token, grazID, writ.CodeWrongDatacenter},
		"of a supervisor":   {NewToken(testCluster()), viennaID, writ.CodeTokenInvalid},
		"of a newer roster": {later, viennaID, writ.CodeRosterTooOld},
		"of another roster": {fork, viennaID, writ.CodeRosterFork},
	} {
		if err := tt.token.Admits(roster, roster.Datacenter(tt.to)); writ.CodeOf(err) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStoredTokenKeyCannotMakeProofs(t *testing.T) {
	token, other := NewToken(testCluster()), NewToken(testCluster())
	text := []byte("claim")
	if !token.Key().Verify(text, token.Prove(text)) {
		t.Error("a good proof is refused")
	}
	if token.Key().Verify([]byte("Claim"), token.Prove(text)) || token.Key().Verify(text, other.Prove(text)) || token.Key().Verify(text, nil) {
		t.Error("a bad proof is accepted")
	}
	for i := range 64 { // 16 of these signatures, R = the identity and S = 0, would match the zero key
		if (TokenKey{}).Verify([]byte{byte(i)}, append([]byte{1}, make([]byte, ed25519.SignatureSize-1)...)) {
			t.Error("the zero key verifies")
		}
	}
	key, err := ParseTokenKey(token.Key().String())
	if err != nil || key != token.Key() {
		t.Errorf("ParseTokenKey = %v, %v", key, err)
	}
	for _, bad := range []string{"", token.Key().String() + "00", strings.ToUpper(token.Key().String())} {
		if _, err := ParseTokenKey(bad); err == nil {
			t.Errorf("ParseTokenKey(%q) succeeds", bad)
		}
	}
}

func TestProofTextsAreDistinct(t *testing.T) {
	part := rapid.SliceOfN(rapid.Byte(), 0, 3)
	parts := rapid.SliceOfN(part, 0, 4)
	testenv.CheckProperty(t, func(t *rapid.T) {
		a, b := parts.Draw(t, "a"), parts.Draw(t, "b")
		same := len(a) == len(b)
		for i := range a {
			same = same && string(a[i]) == string(b[i])
		}
		if (string(frame("x", a...)) == string(frame("x", b...))) != same {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

func testJoiner(token string) Joiner {
	return Joiner{Token: token, Name: "node-1", Key: supervisorKey("node"), AgeKey: "age1x", Nonce: make([]byte, NonceSize)}
}

func TestJoinProof(t *testing.T) {
	roster, err := VerifyRoster(nil, signRoster(t, testRoster(), "root"), noon)
	if err != nil {
		t.Fatal(err)
	}
	joiner, nonce := testJoiner("aaaaaaaaaaaaa"), make([]byte, NonceSize)
	good := ed25519.Sign(testKey("vienna"), JoinProofText(joiner, nonce))
	datacenter, err := VerifyJoinProof(roster, joiner, nonce, good)
	if err != nil {
		t.Fatal(err)
	}
	if datacenter.ID != viennaID {
		t.Errorf("datacenter %s", datacenter.ID)
	}
	other := joiner
	other.Key = supervisorKey("another node")
	short := nonce[1:]
	for name, tt := range map[string]struct {
		nonce     []byte
		Signature []byte
		want      writ.Code
	}{
		"disabled datacenter": {nonce, ed25519.Sign(testKey("graz"), JoinProofText(joiner, nonce)), writ.CodeSignatureInvalid},
		"stranger":            {nonce, ed25519.Sign(testKey("x"), JoinProofText(joiner, nonce)), writ.CodeSignatureInvalid},
		"for another joiner":  {nonce, ed25519.Sign(testKey("vienna"), JoinProofText(other, nonce)), writ.CodeSignatureInvalid},
		"claim's text":        {nonce, ed25519.Sign(testKey("vienna"), JoinClaimText(joiner, nonce)), writ.CodeSignatureInvalid},
		"short nonce":         {short, ed25519.Sign(testKey("vienna"), JoinProofText(joiner, short)), writ.CodeSignatureInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := VerifyJoinProof(roster, joiner, tt.nonce, tt.Signature)
			wantCode(t, err, tt.want)
		})
	}
}

func TestJoinClaim(t *testing.T) {
	token, nonce := NewToken(testCluster()), make([]byte, NonceSize)
	type claim struct {
		joiner Joiner
		nonce  []byte
		key    ed25519.PrivateKey
		token  Token
	}
	for name, tt := range map[string]struct {
		change func(c *claim) // before the proof
		after  func(c *claim) // on arrival
		want   writ.Code
	}{
		"good":           {nil, nil, ""},
		"without token":  {func(c *claim) { c.joiner.Token, c.token = "", Token{} }, nil, ""},
		"wrong token":    {func(c *claim) { c.token = NewToken("") }, nil, writ.CodeTokenInvalid},
		"wrong key":      {func(c *claim) { c.key = testKey("x") }, nil, writ.CodeSignatureInvalid},
		"short key":      {func(c *claim) { c.joiner.Key = c.joiner.Key[1:] }, nil, writ.CodeSignatureInvalid},
		"short nonce":    {func(c *claim) { c.joiner.Nonce = c.joiner.Nonce[1:] }, nil, writ.CodeSignatureInvalid},
		"short answer":   {func(c *claim) { c.nonce = c.nonce[1:] }, nil, writ.CodeSignatureInvalid},
		"with a serial":  {func(c *claim) { c.joiner.Serial = "SN-1" }, nil, ""},
		"other serial":   {func(c *claim) { c.joiner.Serial = "SN-1" }, func(c *claim) { c.joiner.Serial = "SN-2" }, writ.CodeSignatureInvalid},
		"no serial":      {func(c *claim) { c.joiner.Serial = "SN-1" }, func(c *claim) { c.joiner.Serial = "" }, writ.CodeSignatureInvalid},
		"one more":       {nil, func(c *claim) { c.joiner.Serial = "SN-1" }, writ.CodeSignatureInvalid},
		"other name":     {nil, func(c *claim) { c.joiner.Name = "node-2" }, writ.CodeSignatureInvalid},
		"other age key":  {nil, func(c *claim) { c.joiner.AgeKey = "age1y" }, writ.CodeSignatureInvalid},
		"other token id": {nil, func(c *claim) { c.joiner.Token = "b" }, writ.CodeSignatureInvalid},
		"replayed":       {nil, func(c *claim) { c.nonce = append([]byte{1}, c.nonce[1:]...) }, writ.CodeSignatureInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			c := &claim{testJoiner(token.ID), nonce, testKey("node"), token}
			if tt.change != nil {
				tt.change(c)
			}
			text := JoinClaimText(c.joiner, c.nonce)
			proof, signature := c.token.Prove(text), ed25519.Sign(c.key, text)
			if tt.after != nil {
				tt.after(c)
			}
			wantCode(t, VerifyJoinClaim(c.joiner, c.nonce, token.Key(), proof, signature), tt.want)
		})
	}
}

func TestKeyFileIsCreatedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	keys := make([]string, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := sshsig.LoadOrCreateKey(path)
			if err != nil {
				t.Error(err)
			}
			keys[i] = string(key)
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] || k == "" {
			t.Fatal("two processes got different keys")
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sshsig.LoadOrCreateKey(path)
	wantCode(t, err, writ.CodeKeyUnusable)
	if text, _ := os.ReadFile(path); string(text) != "damaged" {
		t.Error("an existing file was replaced")
	}
	for _, nowhere := range []string{filepath.Join(path, "below a file"), filepath.Join(filepath.Dir(path), "missing", "key")} {
		if _, err := sshsig.LoadOrCreateKey(nowhere); err == nil || writ.CodeOf(err) == writ.CodeKeyUnusable {
			t.Errorf("%s: %v, want an error of making it", nowhere, err)
		}
	}
}

func TestFingerprintIsThatOfSSHKeygen(t *testing.T) {
	if have, want := sshsig.Fingerprint(supervisorKey("alice")), ssh.FingerprintSHA256(testPublic("alice")); have != want {
		t.Errorf("%s, want %s", have, want)
	}
	if have := sshsig.Fingerprint(nil); have != "-" {
		t.Errorf("no key has the fingerprint %s", have)
	}
}
