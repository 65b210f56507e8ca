package help

import (
	"strings"

	"github.com/spf13/pflag"
)

// otherText is the placeholder for a text flag that is missing in words. Tests ensure that no visible flag needs it.
const otherText = "STRING"

// Word returns the placeholder for the value of a flag, as "FILE". It is "" for a flag without a value.
func Word(f *pflag.Flag) string {
	switch kind := f.Value.Type(); {
	case kind == "bool":
		return ""
	case kind == "intSlice":
		return "LIST"
	case kind == "duration":
		return "DURATION"
	case kind == "format":
		return "FORMAT"
	case strings.HasPrefix(kind, "int") || strings.HasPrefix(kind, "float"):
		return "N"
	}
	kind := f.Value.Type()
	if word, found := wordsOfKind[kind+" "+f.Name]; found {
		return word
	}
	for word, names := range words {
		for name := range strings.FieldsSeq(names) {
			if name == f.Name {
				return word
			}
		}
	}
	return otherText
}

// wordsOfKind maps the type and name of a flag to its placeholder, for names that flags of several types share.
var wordsOfKind = map[string]string{
	"stringArray image":  "REFERENCE",
	"stringArray module": "NAME=FILE",
	"stringSlice module": "NAME",
	"string module":      "NAME",
	"stringArray run":    "RUN",
	"string run":         "REGEXP",
}

// words maps each placeholder to the names of its flags.
var words = map[string]string{
	"ADDRESS":     "boot-server coordinator journal ledger nameserver postgres public-url redis report-to server supervisor traces url",
	"DATACENTER":  "dc",
	"DEPLOYMENT":  "deployment uses",
	"DIGEST":      "plan",
	"DIRECTORY":   "data dir image-dir modules packages profile redis-tls-dir",
	"ENGINE":      "engines",
	"FILE":        "beside config container-init cpuprofile credential disk file firmware image junit kernel log machines output params program recipe redis-ca redis-cert redis-key roster serials stub summary tls-cert tls-key token-file webhooks",
	"FINGERPRINT": "fingerprint only",
	"FORMAT":      "log-format",
	"HOST":        "allowed-host",
	"HOST:PORT":   "list-listen listen metrics-listen public-transfers redis-listen transfers",
	"HOST:PORTS":  "publish",
	"ID":          "cluster",
	"IDS":         "container-ids process-users",
	"INTERFACE":   "overlay-discover-on",
	"KEY":         "key",
	"KIND":        "kind",
	"LEVEL":       "log-level level",
	"MODE":        "drivers",
	"MONTH":       "month",
	"NAME":        "as context name",
	"NAME=N":      "project-weight",
	"NAME=PATH":   "device",
	"NAME=VALUE":  "label param select setting",
	"NODE":        "node",
	"OPERATION":   "operation",
	"OWNER":       "by",
	"PATTERN":     "key-id",
	"PEER":        "overlay-peer",
	"POSITION":    "after",
	"PROJECT":     "project",
	"RANGE":       "image-allow transfer-allow",
	"REGION":      "region",
	"REGISTRY":    "registry",
	"RESOURCES":   "destructive",
	"ROLE":        "role",
	"SCRIPT":      "script",
	"SECRET":      "secret",
	"SOCKET":      "containerd",
	"SOURCE":      "source",
	"STATE":       "admission state",
	"TENANT":      "tenant",
	"TEXT":        "cmdline reason text",
	"TIME":        "since",
	"TOKEN":       "join report",
	"USER":        "signer user",
}
