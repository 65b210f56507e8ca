package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestReadmeNamesUsersOfThePackage(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	roles := regexp.MustCompile(`for role in (.*); do`).FindStringSubmatch(read("files/preinstall.sh"))
	if roles == nil {
		t.Fatal("preinstall.sh creates no users")
	}
	text := read("README.md")
	for role := range strings.FieldsSeq(roles[1]) {
		if !strings.Contains(text, "`writ-"+role+"`") {
			t.Errorf("README.md does not name the user writ-%s", role)
		}
	}
	if strings.Contains(text, "user `writ`") {
		t.Error("README.md names the user writ of earlier versions")
	}
}
