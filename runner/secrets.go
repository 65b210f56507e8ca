package runner

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"writ"
	"writ/identity/secret"
	"writ/sal"
	"writ/sal/catalog"
)

// reveal decrypts the secrets that the arguments of a job name. The values stay in memory only, until the job ends. The
// error is SECRET_UNKNOWN if a secret did not come with the job, and SECRET_UNREADABLE if this node cannot decrypt a
// secret.
func (j *jobs) reveal(job *writ.Job, operation *catalog.Operation) (map[catalog.Secret]string, error) {
	names := operation.Args.Secrets(job.Args)
	if len(names) == 0 {
		return nil, nil
	}
	values := make(map[catalog.Secret]string, len(names))
	for _, name := range names {
		ciphertext, ok := job.Secrets[string(name)]
		if !ok {
			return nil, writ.Errorf(writ.CodeSecretUnknown, "the job does not contain the secret %s", string(name)).
				WithHint("it was removed after the job was first sent; `writ secret list` shows the existing secrets")
		}
		value, err := secret.Open(ciphertext, labelOf(job, name), j.member.AgeKey())
		if err != nil {
			return nil, err
		}
		values[name] = value
	}
	return values, nil
}

// labelOf returns the label of the secret that a job refers to by name.
func labelOf(job *writ.Job, name catalog.Secret) secret.Label {
	_, version, _ := strings.Cut(string(name), "@")
	number, _ := strconv.Atoi(version) // valid: SecretOf has checked the format
	return secret.Label{
		Cluster: job.Cluster, Datacenter: job.Datacenter, Project: job.Project, Name: name.Name(), Version: number,
	}
}

// minMasked is the minimum length of a masked value, in bytes. Shorter values occur in every text by chance.
const minMasked = 4

// mask replaces the values of secrets with their names. Drivers do not reveal secrets, but the tools that they call
// may: a program prints its environment, an error repeats a command line.
type mask struct{ replacer *strings.Replacer }

func maskOf(secrets map[catalog.Secret]string) mask {
	shown := make(map[string]string)
	for name, value := range secrets {
		for _, text := range []string{value, strings.TrimSpace(value)} {
			if len(text) >= minMasked {
				shown[text] = name.String()
			}
		}
	}
	if len(shown) == 0 {
		return mask{}
	}
	// Longest first: a secret may be a prefix of another.
	texts := slices.SortedFunc(maps.Keys(shown), func(a, b string) int {
		return cmp.Or(len(b)-len(a), cmp.Compare(a, b))
	})
	var pairs []string
	for _, text := range texts {
		pairs = append(pairs, text, shown[text])
	}
	return mask{strings.NewReplacer(pairs...)}
}

func (m mask) text(s string) string {
	if m.replacer == nil {
		return s
	}
	return m.replacer.Replace(s)
}

func (m mask) value(v any) any {
	switch v := v.(type) {
	case string:
		return m.text(v)
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = m.value(e)
		}
		return list
	case map[string]any:
		return m.values(v)
	default:
		return v
	}
}

func (m mask) values(values map[string]any) map[string]any {
	if m.replacer == nil || values == nil {
		return values
	}
	masked := make(map[string]any, len(values))
	for key, v := range values {
		masked[m.text(key)] = m.value(v)
	}
	return masked
}

// err returns an error without secrets. An error that contains no secrets is returned unchanged.
func (m mask) err(err error) error {
	if m.replacer == nil || err == nil {
		return err
	}
	known, coded := errors.AsType[*writ.Error](err)
	shows := err.Error()
	if coded {
		shows += known.Message + known.Hint
		for cause := known.Err; cause != nil; cause = errors.Unwrap(cause) {
			shows += cause.Error()
		}
	}
	if m.text(shows) == shows {
		return err
	}
	if !coded {
		return errors.New(m.text(err.Error()))
	}
	return &writ.Error{Code: known.Code, Message: m.text(known.Message), Hint: m.text(known.Hint)}
}

// attempt masks the answer of a driver.
func (m mask) attempt(got attempt) attempt {
	got.Values, got.err = m.values(got.Values), m.err(got.err)
	return got
}

// request builds the driver's request. Its arguments contain the values of secrets.
func (a *acts) request(ctx context.Context, w *work) sal.Request {
	return sal.Request{
		Operation: w.operation,
		Resource:  w.resource(),
		UID:       w.job.UID,
		Args:      w.args,
		Key:       w.job.JobKey.String(),
		Call: sal.CallHistory{
			Attempt: w.job.Attempt, Known: w.job.KnownFailures, Repeatable: w.job.Idempotent, Until: w.job.Until(),
		},
		Origin:   w.origin,
		Progress: a.progress(ctx, w),
	}
}

func (a *acts) progress(ctx context.Context, w *work) func(text string) {
	return func(text string) {
		text = w.mask.text(text)
		a.desk.say(w.job.JobKey, text)
		a.log.DebugContext(ctx, text, "run", w.job.Run, "seq", w.job.Seq, "op", w.job.Operation)
	}
}
