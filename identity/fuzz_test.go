package identity

import (
	"bytes"
	"testing"
	"time"
)

// Each fuzz target checks a parser of untrusted bytes: it accepts exactly the texts that this package would write.

func FuzzPayload(f *testing.F) {
	byCertificate := testPayload()
	nameCertificate(byCertificate, job(f, nil).PublicKey())
	if text, err := byCertificate.Text(); err == nil {
		f.Add(text)
	}
	if text, err := prunedPayload().Text(); err == nil {
		f.Add(text)
	}
	using := testPayload()
	using.Uses = []string{"mail", "shop"}
	if text, err := using.Text(); err == nil {
		f.Add(text)
	}
	fuzzText(f, testPayload(), func(text []byte) (texter, error) { return ParsePayload(text) })
}

func FuzzStatement(f *testing.F) {
	set := testStatement()
	SecretChange{shopID, "db-password", 3, []byte("sealed")}.Statement(set)
	if text, err := set.Text(); err == nil {
		f.Add(text)
	}
	LabelChange{map[string]string{"disk": "ssd"}, []string{"rack"}}.Statement(set, nodeID)
	if text, err := set.Text(); err == nil {
		f.Add(text)
	}
	for _, resume := range []bool{false, true} {
		testRuns(resume).Statement(set)
		if text, err := set.Text(); err == nil {
			f.Add(text)
		}
	}
	set.Seen = testStatement().Seen
	Batch{ID: "aaaaaaaaaaaaa", Serials: []string{"4711", "4712"}, Most: 2, Until: noon.Add(time.Hour)}.Statement(set)
	if text, err := set.Text(); err == nil {
		f.Add(text)
	}
	fuzzText(f, testStatement(), func(text []byte) (texter, error) { return ParseStatement(text) })
}

func FuzzRoster(f *testing.F) {
	if text, err := limitedRoster().Text(); err == nil {
		f.Add(text)
	}
	fuzzText(f, testRoster(), func(text []byte) (texter, error) { return ParseRoster(text) })
}

type texter interface{ Text() ([]byte, error) }

func fuzzText(f *testing.F, seed texter, parse func([]byte) (texter, error)) {
	text, err := seed.Text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Fuzz(func(t *testing.T, text []byte) {
		parsed, err := parse(text)
		if err != nil {
			return
		}
		if again, err := parsed.Text(); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("accepted %q, would write %q, error %v", text, again, err)
		}
	})
}

func FuzzSignedRoster(f *testing.F) {
	f.Add(signRoster(f, testRoster(), "root"))
	f.Add(signRoster(f, testRoster(), "root", "alice"))
	f.Fuzz(func(t *testing.T, signed []byte) {
		if r, err := VerifyRoster(nil, signed, noon); err == nil && r.Version != 1 {
			t.Fatal("the first roster is not version 1")
		}
	})
}

func FuzzToken(f *testing.F) {
	f.Add(NewToken(testCluster()).String())
	if token, err := NewToken(testCluster()).For(viennaID, testRoster()); err == nil {
		f.Add(token.String())
	}
	f.Add("writ2.aaaaaaaaaaaaa.....")
	f.Fuzz(func(t *testing.T, s string) {
		token, err := ParseToken(s)
		if err != nil {
			return
		}
		if again, err := ParseToken(token.String()); err != nil || again != token {
			t.Fatalf("%q is %v, written and read again %v, %v", s, token, again, err)
		}
	})
}
