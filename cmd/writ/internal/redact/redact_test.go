package redact_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/redact"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
)

// secrets returns, for each kind of secret, a text and the part of it that must stay hidden.
func secrets(t *testing.T) map[string][2]string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "canary")
	if err != nil {
		t.Fatal(err)
	}
	file := string(pem.EncodeToMemory(block))
	lines := strings.Split(file, "\n")
	opener, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	token := identity.NewToken(writ.ClusterID(strings.Repeat("ab", 32))).String()
	return map[string][2]string{
		"a key of OpenSSH":           {file, lines[3][:30]},
		"its beginning":              {file[:200], lines[2][:30]},
		"its text without the frame": {strings.Join(lines[1:4], "\n"), lines[2][20:]},
		"its third line":             {lines[3], lines[3][10:40]},
		"its fourth line":            {lines[4], lines[4][10:40]},
		"a key of age":               {opener.String(), opener.String()[20:40]},
		"a join token":               {token, strings.Split(token, ".")[2][10:30]},
		"a password of PostgreSQL":   {"postgres://writ:hunter/2@db.example:5432/writ?sslmode=verify-full", "hunter"},
		"a password of Redis":        {"rediss://:hunter2@redis.example:6379/0", "hunter2"},
		"a password of a proxy":      {"https://alice:hunter2@writ.example.org", "hunter2"},
		"a password among settings":  {"host=db user=writ password='hunter 2' dbname=writ", "hunter"},
		"a password as a parameter":  {"postgres://db.example/writ?user=writ&password=hunter2&sslmode=disable", "hunter2"},
		"a password in JSON":         {`"postgres://db.example/writ?user=writ\u0026password=hunter2\u0026sslmode=disable"`, "hunter2"},
		"a password with an at":      {"https://alice:p@hunter2@writ.example.org/x", "hunter2"},
		"a password behind a space":  {"host=db user=writ password = hunter2 dbname=writ", "hunter2"},
		"a password with a quote":    {`host=db password='it\'s hunter2' dbname=writ`, "hunter2"},
		"a password without its end": {"host=db password='hunter 2", "hunter"},
		"a password of libpq":        {"PGPASSWORD=hunter2 psql", "hunter2"},
		"a password of a service":    {"REDIS_PASSWORD=hunter2", "hunter2"},
		"a password of an address":   {"https://images.example/a.raw?x=1&X-Amz-Signature=0a1b2c3d4e&y=2", "0a1b2c"},
		"a password named token":     {"https://images.example/a.raw?token=hunter2", "hunter2"},
		"a password in a record":     {`{"user": "writ", "password": "hunter2"}`, "hunter2"},
		"a password in a header":     {"Authorization: Bearer hunter2-abc", "hunter2"},
	}
}

func TestNoTextShowsASecret(t *testing.T) {
	for range 5 { // keys
		for name, secret := range secrets(t) {
			for form, text := range map[string]string{
				"as it is": secret[0], "quoted": fmt.Sprintf("%q is no file", secret[0]), "in a sentence": "open " + secret[0] + ": no such file",
			} {
				shown := strings.NewReplacer("\n", "", `\n`, "").Replace(redact.Text(text))
				if strings.Contains(shown, secret[1]) || !strings.Contains(shown, "not shown") {
					t.Errorf("%s, %s: %s is shown as %s", name, form, text, shown)
				}
			}
		}
	}
}

// Likely passwords are hidden but never rejected, because sentences look like them.
func TestALikelyPasswordIsHiddenAndNotRefused(t *testing.T) {
	for _, text := range []string{
		"password: hunter", "user: writ\n  db-password: hunter\nport: 5432", "- password: hunter", `password: "hunter 2"`, "password: 'hunter 2'", "password:hunter",
		"postgres.password: hunter", "{password: hunter, port: 5}", "the password:  xhunter2", "password: p'5hunter", "db_password: 5&hunter", `("password: 'x1hunter'")`,
		"password: hunter (secret, not shown)", "curl -H bearer hunter-0a1b2c3d4e5f6a7b", "wrong password: OPS-hunter-1",
		"password: (secret,hunter",
	} {
		for form, text := range map[string]string{"as it is": text, "quoted": fmt.Sprintf("%q", text)} {
			shown := redact.Text(text)
			if strings.Contains(shown, "hunter") || strings.Contains(text, "port: 5432") != strings.Contains(shown, "port: 5432") {
				t.Errorf("%s, %s is shown as %s", form, text, shown)
			}
			if _, err := strconv.Unquote(shown); form == "quoted" && err != nil {
				t.Errorf("%s is shown as %s, want a quoted text", text, shown)
			}
			if redact.Holds(text) {
				t.Errorf("%s, %s counts as a secret", form, text)
			}
		}
	}
}

func TestUnterminatedPasswordHidesNoLaterText(t *testing.T) {
	const line = `{"msg":"password='abc","next":"x"}`
	if shown := redact.Text(line); shown != strings.Replace(line, "'abc", "(secret, not shown)", 1) {
		t.Errorf("%s is shown as %s", line, shown)
	}
}

func TestUnterminatedPasswordIsHidden(t *testing.T) {
	for _, text := range []string{"password='a\nhunter", "password='a\nhunter'", `password='a"hunter`, `password='a\hunter`, "password=(secret,hunter"} {
		if shown := redact.Text(text); strings.Contains(shown, "hunter") || !redact.Holds(text) {
			t.Errorf("%q is shown as %q; it holds a password: %v", text, shown, redact.Holds(text))
		}
	}
}

func TestTextsWithoutTheirSecretsStaySo(t *testing.T) {
	all := secrets(t)
	all["a password of YAML"] = [2]string{"password: hunter2"}
	for name, secret := range all {
		shown := redact.Text(secret[0])
		if again := redact.Text(shown); again != shown || redact.Holds(shown) {
			t.Errorf("%s: %s is shown as %s again; %v", name, shown, again, redact.Holds(shown))
		}
	}
}

func TestTextsWithoutSecretsStayUnredacted(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"writ1.example is a token? AGE-SECRET is not one; -----BEGIN PUBLIC KEY-----",
		sshsig.Fingerprint(public), string(ssh.MarshalAuthorizedKey(sshsig.SSHKey(public))),
		"sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIKqzKqzKqzKqzKqzKqzKqzKqzKqzKqzKqzKqzKqzKqzKAAAABHNzaDo=",
		"6f1c000000000000000000000000000000000000000000000000000000000000", "sha256:" + writ.DigestOf([]byte("x")).String(), string(writ.RunIDOf(writ.DigestOf(nil))),
		"/var/lib/writ/supervisor/journals/2024/wal/000001", "/tmp/TestOnlyOneOfManyFoldersIsTaken12345/001/data/dc1/host/volumes/pool2/x1",
		"export WRIT_CONFIG=/home/alice/Documents2026/WritClusterForTheWarehouse/data/client.yaml",
		"/srv/WarehouseOfTheNorth2026/ClusterData/dev", "/home/Customers2026/InfrastructureOfVienna/dev/client.yaml",
		"http://127.0.0.1:7440/v1/runs?project=web", "https://writ.example.org:7440/library/table@1", "the password is missing", "mail alice@example.org",
		"http://127.0.0.1:7440/v1/tokens?datacenter=dc1&cursor=abc", "token=nbswy3dpeb3w6 state=open", "the bearer of bad news",
		"the new password: ask Alice for it", "wrong password: 3 attempts", `{"level":"WARN","msg":"no password: the server has none","n":1}`, "bearer of certificates",
	} {
		if shown := redact.Text(text); shown != text {
			t.Errorf("%s is shown as %s", text, shown)
		}
	}
}

// TestNoPathHidesALineOfAKey puts lines of a key where a path could be, and next to path names.
func TestNoPathHidesALineOfAKey(t *testing.T) {
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 0))
	const lines = 3000
	shown := map[string]int{}
	for range lines {
		raw := make([]byte, 48)
		for i := range raw {
			raw[i] = byte(random.Uint32())
		}
		line := base64.StdEncoding.EncodeToString(raw)
		for form, text := range map[string]string{
			"alone": line, "behind a slash": "/" + line, "as a name": "/etc/writ/" + line, "before names": line + "/data/client",
			"between names": "/srv/WarehouseOfTheNorth2026/" + line + "/InfrastructureOfVienna/dev/client",
			"behind many":   strings.Repeat("/WarehouseOfTheNorth", 20) + "/" + line,
			"in parts":      "/" + line[:20] + "/" + line[20:40] + "/" + line[40:],
		} {
			if strings.Contains(redact.Text(text), line[22:40]) {
				shown[form]++
			}
		}
	}
	for form, n := range shown {
		if n > lines/1000 {
			t.Errorf("%s: %d of %d lines are shown", form, n, lines)
		}
	}
}

func TestTextsWithSecretsAreDetected(t *testing.T) {
	for name, secret := range secrets(t) {
		text := "because of " + secret[0] + " it is so"
		line, password := strings.HasSuffix(name, "line"), strings.Contains(name, "password")
		if redact.Holds(text) == line || redact.HoldsToken(text) == (line || password) {
			t.Errorf("%s: %v, as a token %v", name, redact.Holds(text), redact.HoldsToken(text))
		}
	}
	for _, text := range []string{"", "a new disk", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "writ1.aaaaaaaa", "#cloud-config\nusers: []\n"} {
		if redact.Holds(text) || redact.HoldsToken(text) {
			t.Errorf("%q counts as a secret", text)
		}
	}
}

func TestHoldsKeyFindsSecretsAndAcceptsNames(t *testing.T) {
	for name, secret := range secrets(t) {
		whole := !strings.Contains(name, "password") && !strings.HasSuffix(name, "line") // names may contain the others
		if holds := redact.HoldsKey(secret[0]); holds != whole {
			t.Errorf("%s: %v", name, holds)
		}
	}
	for _, name := range []string{"", "agent", "agent:SHA256:uNiVztksCsDhcc0u9e8BrrJXVGDi0rvJ4E4qRoCGBpU", "~/.ssh/id_ed25519", "web-shop"} {
		if redact.HoldsKey(name) {
			t.Errorf("%q counts as a secret", name)
		}
	}
}

func TestNoLogShowsASecret(t *testing.T) {
	for name, secret := range secrets(t) {
		for format, handler := range map[string]func(*testenv.Log) slog.Handler{
			"text": func(l *testenv.Log) slog.Handler {
				return slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: redact.Attr})
			},
			"json": func(l *testenv.Log) slog.Handler {
				return slog.NewJSONHandler(l, &slog.HandlerOptions{ReplaceAttr: redact.Attr})
			},
		} {
			said := new(testenv.Log)
			log := slog.New(handler(said))
			log.Info(secret[0])
			log.Info("a string", "address", secret[0])
			log.With("address", secret[0]).WithGroup("in").Info("a group", slog.Group("a", "b", secret[0]))
			log.Info("an error", "err", fmt.Errorf("cannot reach: %w", errors.New(secret[0])))
			log.Info("a list", "addresses", []string{"x", secret[0]})
			log.Info("a struct", "config", struct{ URL string }{secret[0]})
			shown := strings.NewReplacer("\n", "", `\n`, "").Replace(said.String())
			if strings.Contains(shown, secret[1]) || strings.Count(shown, "not shown") < 7 {
				t.Errorf("%s, %s:\n%s", name, format, said)
			}
			for line := range strings.Lines(said.String()) {
				if format == "json" && !json.Valid([]byte(line)) {
					t.Errorf("%s: no JSON: %s", name, line)
				}
			}
		}
	}
	said := new(testenv.Log)
	slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{ReplaceAttr: redact.Attr})).Info("m", "n", 5, "node", writ.NodeID("n1"), "list", []string{"a"})
	if !strings.Contains(said.String(), "msg=m n=5 node=n1 list=[a]") {
		t.Errorf("values without secrets are logged as %s", said)
	}
}
