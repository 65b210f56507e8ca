package redact_test

import (
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/redact"
)

// canary is the body of a token. The tokens below are concatenated from parts, so that repository scanners do not
// report them.
const canary = "c4NaRy0c4NaRy1c4NaRy2c4NaRy3c4NaRy4"

// foreignTokens returns one text per service, each with a token.
func foreignTokens() map[string]string {
	j := func(parts ...string) string { return strings.Join(parts, "") }
	upper := strings.ToUpper(canary[:16])
	return map[string]string{
		"GitHub personal":     j("gh", "p_", canary),
		"GitHub OAuth":        j("gh", "o_", canary),
		"GitHub app":          j("gh", "s_", canary),
		"GitHub fine-grained": j("github", "_pat_", canary, "_", canary),
		"GitLab":              j("glp", "at-", canary[:20]),
		"GitLab runner":       j("gl", "rt-", canary[:20]),
		"Slack bot":           j("xo", "xb-1234-", canary),
		"Slack refresh":       j("xo", "xe.xoxp-1-", canary),
		"AWS id":              j("AK", "IA", upper),
		"AWS pair":            j("AK", "IA", upper, " secret c4NaRyAA/words/of/a/path/which/are/longs"),
		"AWS setting":         j("aws_secret_access_key = c4NaRyAA/words/of/a/path"),
		"webhook secret":      j("whs", "ec_", canary),
		"Stripe":              j("sk", "_live_", canary),
		"JSON web token":      j("ey", "JhbGciOiJub25lIn0.", canary, ".", canary),
		"PEM, PKCS #8":        j("-----BEGIN PRIV", "ATE KEY-----\n", canary, "\n-----END PRIV", "ATE KEY-----"),
		"PEM, RSA, cut":       j("-----BEGIN RSA PRIV", "ATE KEY-----\\n", canary),
		"PGP":                 j("-----BEGIN PGP PRIV", "ATE KEY BLOCK-----\n\n", canary, "\n-----END PGP PRIV", "ATE KEY BLOCK-----"),
		"age":                 j("AGE-SEC", "RET-KEY-1", canary),
		"npm":                 j("np", "m_", canary),
		"PyPI":                j("py", "pi-AgE", canary),
		"bearer":              j("Authorization: Bearer ", canary),
		"bearer alone":        j("with bearer ", canary),
		"basic":               j("authorization=[Basic ", canary, "]"),
		"header of GitLab":    "PRIVATE-TOKEN: c4NaRy",
		"header of a service": `"X-Api-Key": "c4NaRy"`,
		"environment":         "GITHUB_TOKEN=c4NaRy writ submit",
		"JSON field":          `{"client_secret":"c4NaRy-1"}`,
		"model service":       j("s", "k-proj-", canary),
		"Vault":               j("hv", "s.", canary),
		"Telegram":            j("1234567890:", "AA", canary),
		"Linear":              j("lin", "_api_", canary),
		"Sentry":              j("sn", "trys_", canary),
		"Doppler":             j("dp", ".pt.", canary),
		"Redis setting":       "requirepass c4NaRy",
		"Redis, quoted":       `masterauth "c4NaRy"`,
		"ACL of Redis":        "user default on ~* >c4NaRy >c4NaRy2 +@all",
		"AUTH of Redis":       "AUTH default c4NaRy",
		"redis-cli":           "redis-cli -h db -a c4NaRy ping",
		"variable of Redis":   "REDISCLI_AUTH=c4NaRy",
		"npm setting":         "//registry.example/:_authToken=c4NaRy",
		"bare variable":       "SECRET_KEY=c4NaRy",
		"netrc":               "machine git.example login bob password c4NaRy",
		"curl":                "curl -s -u bob:c4NaRy https://example.org",
		"option":              "--password c4NaRy",
		"arguments":           `["--password", "c4NaRy"]`,
		"sshpass":             "sshpass -p c4NaRy ssh db",
		"passphrase":          "passphrase: c4NaRy",
		"registry":            `{"auths":{"r.example":{"auth":"c4NaRyc4NaRy=="}}}`,
		"PuTTY":               j("Private-Lines: 1\n", canary, "\nPrivate-MAC: 00"),
	}
}

func TestForeignTokensAreHidden(t *testing.T) {
	for name, text := range foreignTokens() {
		for form, text := range map[string]string{
			"alone": text, "in a sentence": "cannot use " + text + ": refused", "quoted": fmt.Sprintf("%q", "\n"+text), "in a list": "a," + text + ",b",
		} {
			shown := redact.Text(text)
			if strings.Contains(strings.ToLower(shown), "c4nary") {
				t.Errorf("%s, %s: shown as %s", name, form, shown)
			}
			if again := redact.Text(shown); again != shown {
				t.Errorf("%s, %s: %s is redacted again to %s", name, form, shown, again)
			}
		}
	}
}

func TestAddressesHideTheirSecrets(t *testing.T) {
	for _, tt := range []struct{ address, want string }{
		{"redis://:c4/Na@Ry@db.example:6379/0", "redis://:(secret, not shown)@db.example:6379/0"},
		{"redis://u:12/c4@db:6379", "redis://u:(secret, not shown)@db:6379"},
		{"redis://us/er:c4@db:6379", "redis://us/er:(secret, not shown)@db:6379"},
		{"unix://:c4/b@/run/redis.sock", "unix://:(secret, not shown)@/run/redis.sock"},
		{"unix:///run/redis@1.sock?db=1", "unix:///run/redis@1.sock?db=1"},
		{"postgresql://u:c4%2F%40'x#?@db/writ", "postgresql://u:(secret, not shown)@db/writ"},
		{"https://u:c4/Na@Ry@writ.example.org/x", "https://u:(secret, not shown)@writ.example.org/x"},
		{"https://u:12/c4@writ.example.org", "https://u:(secret, not shown)@writ.example.org"},
		{"https://:c4%zz@writ.example.org", "https://:(secret, not shown)@writ.example.org"},
		{"socks5://u:c4@proxy:1080", "socks5://u:(secret, not shown)@proxy:1080"},
		{"https://" + canary + "@o1.example.org/2", "https://(secret, not shown)@o1.example.org/2"},
		{"https://hooks.slack.com/services/T0/B0/c4", "https://hooks.slack.com/services/(secret, not shown)"},
		{"https://discord.com/api/webhooks/123/c4-x", "https://discord.com/api/webhooks/(secret, not shown)"},
		{"https://acme.webhook.office.com/webhookb2/c4@1/IncomingWebhook/2", "https://acme.webhook.office.com/webhookb2/(secret, not shown)"},
		{"https://chat.example/hooks/c4", "https://chat.example/hooks/(secret, not shown)"},
		{"https://chat.googleapis.com/v1/spaces/A/messages?key=" + canary + "&token=c4&x=1", "https://chat.googleapis.com/v1/spaces/A/messages?key=(secret, not shown)&token=(secret, not shown)&x=1"},
		{"https://api.telegram.org/bot1234567:" + canary + "/send", "https://api.telegram.org/bot(secret, not shown)/send"},
		{"https://ops.example.org/in/aB3dE5gH7jK9mN1pQ3sT", "https://ops.example.org/in/(secret, not shown)"},
		{"https://a.example:7440/x,https://u:c4@b.example", "https://a.example:7440/x,https://u:(secret, not shown)@b.example"},

		{"https://hooks.example.org/writ", "https://hooks.example.org/writ"},
		{"http://coord1:7440/library/table@1", "http://coord1:7440/library/table@1"},
		{"https://registry:5000/app@sha256:6f1c00", "https://registry:5000/app@sha256:6f1c00"},
		{"https://user@writ.example.org:7440", "https://user@writ.example.org:7440"},
	} {
		for form, format := range map[string]string{"alone": "%s", "in a sentence": "reach %s: refused", "quoted": "%q is invalid", "in JSON": `{"a":"%s","b":"x@y"}`} {
			if got, want := redact.Text(fmt.Sprintf(format, tt.address)), fmt.Sprintf(format, tt.want); got != want {
				t.Errorf("%s: %s is shown as %s", form, tt.address, got)
			}
		}
	}
}

// Ids, digests and names stay visible even with the prefix or length of a token.
func TestIdsAreNotHiddenAsTokens(t *testing.T) {
	for _, text := range []string{
		"pypi-mirror-of-the-north-2026", "npm_lifecycle_event=test", "glpat and ghp_ are prefixes", "task-force-of-the-northern-warehouse",
		"writ token list: token=nbswy3dpeb3w6", "key=SHA256:uNiVztksCsDhcc0u9e8BrrJXVGDi0rvJ4E4qRoCGBpU", "secret=db-password version=3",
		"client secret: missing", "AKIA is a prefix", "https://images.example/debian-12-genericcloud-amd64-20240101.qcow2",
		"https://writ.example.org/runs/" + string(writ.RunIDOf(writ.DigestOf(nil))), "https://writ.example.org/nodes/" + string(writ.NodeID(writ.NewUUID())),
		"https://registry.example/v2/app/blobs/sha256:" + writ.DigestOf(nil).String(), "msg_0a1b2c3d4e5f60718293a4b5c6d7e8f9",
		"set requirepass in redis.conf, and the password", "masterauth and requirepass", "NOAUTH Authentication required.",
		"AUTH failed for user default", "give it --password or a file", "the passphrase: a sentence", "ls >out.log",
		"the user writ has no >rights", `"auth":"none"`, "it needs a login and password of the database",
		"docs/manual/webhooks.md", "the cookie of a browser", "file:///srv/images/a@b:c.raw",
	} {
		if shown := redact.Text(text); shown != text || redact.Holds(text) {
			t.Errorf("%s is shown as %s", text, shown)
		}
	}
}
