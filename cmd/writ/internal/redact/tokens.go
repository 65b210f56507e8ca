package redact

import "writ/internal/lazyregexp"

// tokenForms lists token formats of other services. Each form is a regular expression. The text of its first group, if
// any, stays visible. Most forms have no leading word boundary, because in JSON a token may follow "
// ", whose last character is a letter. The other forms need a boundary, because their prefixes occur in other words.
var tokenForms = []struct{ service, form string }{
	{"GitHub", `gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}`},
	{"GitLab", `gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt|ffct|wt)-[A-Za-z0-9_.-]{12,}`},
	{"Slack", `xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{8,}|xapp-[0-9]-[A-Za-z0-9-]{8,}`},
	{"AWS", `(^|[^A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b`},
	{"webhooks", `whs(?:ec|k)_[A-Za-z0-9+/=_-]{8,}`},
	{"Stripe", `[sr]k_(?:live|test)_[A-Za-z0-9]{8,}`},
	{"npm", `npm_[A-Za-z0-9]{20,}`},
	{"PyPI", `pypi-AgE[A-Za-z0-9_-]{8,}`},
	{"JSON web tokens", `eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)+`},
	{"Docker", `dckr_[po]at_[A-Za-z0-9_-]{16,}`},
	{"Hugging Face", `(\b|\\[nrt])hf_[A-Za-z0-9]{30,}`},
	{"Vault", `(\b|\\[nrt])hv[sbr]\.[A-Za-z0-9_-]{20,}`},
	{"Tailscale", `tskey-[a-z]+-[A-Za-z0-9-]{12,}`},
	{"Google", `AIza[A-Za-z0-9_-]{35}|(\b|\\[nrt])ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}`},
	{"DigitalOcean", `do[opr]_v1_[a-f0-9]{32,}`},
	{"Grafana", `glsa_[A-Za-z0-9_]{20,}|(\b|\\[nrt])glc_[A-Za-z0-9+/=]{20,}`},
	{"model services", `(\b|\\[nrt])sk-(?:[a-z]+[0-9]*-)*[A-Za-z0-9_-]{24,}`},
	{"SendGrid", `(\b|\\[nrt])SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`},
	{"Telegram", `(/bot)[0-9]{6,}:[A-Za-z0-9_-]{20,}|(\b|\\[nrt])[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}`},
	{"Linear", `lin_(?:api|oauth)_[A-Za-z0-9]{20,}`},
	{"Sentry", `sntry[su]_[A-Za-z0-9_=+/-]{16,}`},
	{"Databricks", `(\b|\\[nrt])dapi[0-9a-f]{32}`},
	{"Shopify", `shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}`},
	{"New Relic", `NRAK-[A-Z0-9]{20,}`},
	{"PlanetScale", `pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{16,}`},
	{"Supabase", `(\b|\\[nrt])sbp_[a-f0-9]{40}`},
	{"Doppler", `(\b|\\[nrt])dp\.(?:pt|st|sa|ct|scim|audit)\.[A-Za-z0-9._-]{20,}`},
	{"Terraform", `[A-Za-z0-9]{10,}\.atlasv1\.[A-Za-z0-9_-]{20,}`},
}

// tokenPatterns holds the compiled tokenForms.
var tokenPatterns = func() (all []*lazyregexp.Regexp) {
	for _, t := range tokenForms {
		all = append(all, lazyregexp.New(t.form))
	}
	return all
}()

// awsPairPattern matches an AWS secret key next to its access key id. The secret key alone may look like a path.
var awsPairPattern = lazyregexp.New(`((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}[^A-Za-z0-9/+](?:.|\n){0,60}?[^A-Za-z0-9/+])[A-Za-z0-9/+]{40}\b`)

// namedPattern matches secrets by the name in front of them: environment variables, ini settings, JSON and YAML fields,
// and HTTP headers. The bare names "token" and "key" do not count, because tokens and keys have public ids.
var namedPattern = lazyregexp.New(`((?:\b|_|\\[nrt])(?:[A-Z0-9]+_)+(?:TOKEN|SECRET|API_?KEY|SECRET_KEY|ACCESS_KEY|PRIVATE_KEY|PASSPHRASE)=["']?)[^\s"'\\]+` +
	`|((?i:(?:secret[_-]?access[_-]?key|client[_-]?secret|access[_-]?token|refresh[_-]?token|session[_-]?token|auth[_-]?token|` +
	`api[_-]?key|account[_-]?key)\\?["']?\s?[:=]\s?\\?["']?))[^\s"'\\,;}(]{6,}` +
	`|((?i:(?:\b|\\[nrt])(?:x-api-key|private-token|job-token|x-auth-token|x-vault-token|x-amz-security-token|cookie|set-cookie)["']?[:=]\[?\s?["']?))[^\s"'\\,\](]{4,}` +
	`|((?i:(?:\b|\\[nrt])authorization["']?[:=]\[?\s?["']?(?:token|apikey|digest|negotiate)\s))[^\s"'\\,\](]{4,}`)

// hideTokens replaces tokens of other services.
func hideTokens(s string) string {
	s = hide(awsPairPattern, s)
	for _, p := range tokenPatterns {
		s = hide(p, s)
	}
	return hide(namedPattern, s)
}
