package junit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/testenv"
)

// hostile contains characters that XML escapes, changes or forbids, and invalid UTF-8.
const hostile = "a <b> & \"c\" 'd' ]]> \t\n\r e\r\nf \x00\x01\x1b\x7f \u0085\u2028 \ufffe\uffff \U0001f600 \xff\xc3 &amp; <!-- --> <?x?> %s"

// readable is hostile as a parser returns it: U+FFFD replaces the characters that XML does not allow.
var readable = strings.NewReplacer("\x00", "\ufffd", "\x01", "\ufffd", "\x1b", "\ufffd", "\ufffe", "\ufffd", "\uffff", "\ufffd", "\xff", "\ufffd", "\xc3", "\ufffd").Replace(hostile)

func TestAnotherParserReadsHostileTexts(t *testing.T) {
	problem := &Problem{Message: hostile, Text: hostile}
	suite := Suite{Name: hostile, Began: time.Unix(0, 0), Took: time.Second, Cases: []Case{
		{Name: hostile, Class: hostile, File: hostile, Output: hostile, Failure: problem},
		{Name: "error", Error: problem}, {Name: "skipped", Skipped: problem},
	}}
	var file bytes.Buffer
	if err := Write(&file, hostile, []Suite{suite}); err != nil {
		t.Fatal(err)
	}
	const read = `
import json, sys
from xml.etree import ElementTree
def tree(e):
	return {"tag": e.tag, "text": e.text, "attributes": e.attrib, "in": [tree(c) for c in e]}
json.dump(tree(ElementTree.fromstring(sys.stdin.buffer.read())), sys.stdout)
`
	python := exec.Command(testenv.Need(t, "python3"), "-c", read)
	python.Stdin = &file
	answer, err := python.Output()
	if err != nil {
		t.Fatal(err)
	}
	type element struct {
		Tag, Text  string
		Attributes map[string]string
		In         []element
	}
	var got element
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatal(err)
	}
	cases := got.In[0].In
	failed := cases[0]
	for what, text := range map[string]string{
		"all": got.Attributes["name"], "suite": got.In[0].Attributes["name"], "case": failed.Attributes["name"], "class": failed.Attributes["classname"],
		"file": failed.Attributes["file"], "failure": failed.In[0].Attributes["message"], "failure's text": failed.In[0].Text, "output": failed.In[1].Text,
		"error": cases[1].In[0].Text, "skipped": cases[2].In[0].Attributes["message"],
	} {
		if diff := cmp.Diff(readable, text); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if counts := fmt.Sprint(got.Attributes["tests"], got.Attributes["failures"], got.Attributes["errors"], got.Attributes["skipped"]); counts != "3111" {
		t.Errorf("the counts are %s", counts)
	}
}
