package secret

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"

	"filippo.io/age"

	"writ"
)

var label = Label{
	Cluster: "c1", Datacenter: "0192f6c2-7d3a-7000-8000-00000000000d", Project: "0192f6c2-7d3a-7000-8000-000000000001",
	Name: "db-password", Version: 3,
}

func supervisor(t testing.TB, name string) (age.Recipient, age.Identity) {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, name)
	key := ed25519.NewKeyFromSeed(seed)
	to, err := ForSupervisor(key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	by, err := OfSupervisor(key)
	if err != nil {
		t.Fatal(err)
	}
	return to, by
}

func encrypt(t testing.TB, value string, to age.Recipient) []byte {
	t.Helper()
	ciphertext, err := Encrypt(value, label, to)
	if err != nil {
		t.Fatal(err)
	}
	return ciphertext
}

func TestSecretReachesSupervisorAndNode(t *testing.T) {
	to, by := supervisor(t, "vienna")
	for _, value := range []string{"x", "correct horse battery staple\n", strings.Repeat("é", MaxValue/2)} {
		ciphertext := encrypt(t, value, to)
		if len(ciphertext) > MaxCiphertext {
			t.Errorf("%d bytes become %d; %d are possible", len(value), len(ciphertext), MaxCiphertext)
		}
		have, err := Open(ciphertext, label, by)
		if err != nil || have != value {
			t.Fatalf("the supervisor reads %q, %v", have, err)
		}
		node, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		reader, err := ForNode(node.Recipient().String())
		if err != nil {
			t.Fatal(err)
		}
		if have, err = Open(encrypt(t, have, reader), label, node); err != nil || have != value {
			t.Errorf("the node reads %q, %v", have, err)
		}
	}
}

func TestOnlyTheReaderOpensTheSecretItNames(t *testing.T) {
	to, by := supervisor(t, "vienna")
	_, another := supervisor(t, "graz")
	ciphertext := encrypt(t, "correct horse", to)
	for name, change := range map[string]func(l *Label){
		"cluster":    func(l *Label) { l.Cluster = "c2" },
		"datacenter": func(l *Label) { l.Datacenter = "0192f6c2-7d3a-7000-8000-00000000000e" },
		"project":    func(l *Label) { l.Project = "0192f6c2-7d3a-7000-8000-000000000002" },
		"name":       func(l *Label) { l.Name = "api-key" },
		"version":    func(l *Label) { l.Version = 2 },
	} {
		wrong := label
		change(&wrong)
		if value, err := Open(ciphertext, wrong, by); writ.CodeOf(err) != writ.CodeSecretUnreadable || value != "" {
			t.Errorf("as one of another %s: %q, %v", name, value, err)
		}
	}
	if value, err := Open(ciphertext, label, another); writ.CodeOf(err) != writ.CodeSecretUnreadable || value != "" {
		t.Errorf("another supervisor reads %q, %v", value, err)
	}
	for i := range ciphertext {
		bad := bytes.Clone(ciphertext)
		bad[i] ^= 1
		if value, err := Open(bad, label, by); err == nil {
			t.Errorf("with byte %d changed it is opened: %q", i, value)
		}
	}
	if _, err := ForNode("age1nobody"); writ.CodeOf(err) != writ.CodeSecretUnreadable {
		t.Errorf("a node without a proper key: %v", err)
	}
}

func TestCiphertextsOfPasswordsHaveOneLength(t *testing.T) {
	to, _ := supervisor(t, "vienna")
	if short, long := encrypt(t, "x", to), encrypt(t, strings.Repeat("x", 32), to); len(short) != len(long) {
		t.Errorf("1 byte becomes %d, 32 bytes become %d", len(short), len(long))
	}
}

func TestInvalidSecretValuesAreRejected(t *testing.T) {
	to, _ := supervisor(t, "vienna")
	for value, want := range map[string]writ.Code{
		"":                              writ.CodeBadRequest,
		"\xff\xfe":                      writ.CodeBadRequest,
		"a\x00b":                        writ.CodeBadRequest,
		strings.Repeat("x", MaxValue+1): writ.CodeTooLarge,
	} {
		if _, err := Encrypt(value, label, to); writ.CodeOf(err) != want || len(value) > 0 && len(value) < 10 && strings.Contains(err.Error(), value) {
			t.Errorf("%.10q: %v, want %s", value, err, want)
		}
	}
}

// FuzzOpen decrypts arbitrary content: any attacker has the reader's public key, and so can encrypt any content.
func FuzzOpen(f *testing.F) {
	_, by := supervisor(f, "vienna")
	f.Add([]byte{0, 0, 0, 1, 0xa0}, false)
	f.Add(bytes.Repeat([]byte{0xff}, padTo), true)
	f.Fuzz(func(t *testing.T, inside []byte, whole bool) {
		if body, err := unpad(inside); err == nil && len(body)+4 > len(inside) {
			t.Fatalf("%d of %d bytes", len(body), len(inside))
		}
		if whole {
			if _, err := Open(inside, label, by); err == nil {
				t.Fatal("it was opened")
			}
		}
	})
}
