package link

import (
	"bytes"
	"encoding/json"
	"time"

	"writ"
)

// Bounds of what is known of machines that start.
const (
	MaxBootServers  = 8    // of a datacenter. Of more, the one that was silent for longest is forgotten
	MaxBootMachines = 4096 // of a boot server, and of an answer
)

// BootSteps are the steps of a machine that starts, in their order: what boot servers count apart. Others are counted as BootOther.
var BootSteps = []string{
	"script", "loading", "sent", "start", "network", "data", "config", "clock", "service", "runner", "waits", "approve", "joined", "off", BootOther,
}

// BootOther counts machines at no step of BootSteps, and those that have not asked yet.
const BootOther = "other"

// BootReport is what a boot server says of all machines of its site. The machines themselves have said it, without proof: it is shown, and nothing
// follows from it.
type BootReport struct {
	Name     string       `json:"name"`              // of its host
	Image    string       `json:"image"`             // digest of the image that machines get
	Trouble  string       `json:"trouble,omitempty"` // why the settings of single machines cannot be read
	Machines BootMachines `json:"machines"`          // those whose last step is the newest come first
}

// BootMachines are at most MaxBootMachines when they are read: a list of empty ones takes a hundred times its length in memory.
type BootMachines []BootMachine

// UnmarshalJSON implements json.Unmarshaler. More than MaxBootMachines are TOO_LARGE.
func (l *BootMachines) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return writ.Errorf(writ.CodeBadRequest, "the machines are no list")
	}
	*l = BootMachines{}
	for d.More() {
		if len(*l) == MaxBootMachines {
			return writ.Errorf(writ.CodeTooLarge, "a boot server reports at most %d machines", MaxBootMachines)
		}
		var m BootMachine
		if err := d.Decode(&m); err != nil {
			return err
		}
		*l = append(*l, m)
	}
	return nil
}

// BootMachine is how far a machine has come. A boot server says times as ages, because its clock may be another one.
type BootMachine struct {
	MAC        string `json:"mac"` // or "serial=" and the number of a machine that has settings and has not asked yet
	Server     string `json:"server,omitempty"`
	Node       string `json:"node,omitempty"` // what it is called as a node, as it says
	Step       string `json:"step,omitempty"` // "" if it has not asked yet
	Failed     bool   `json:"failed,omitempty"`
	Advice     string `json:"advice"`
	Address    string `json:"address,omitempty"`
	Serial     string `json:"serial,omitempty"`
	Asset      string `json:"asset,omitempty"`
	UUID       string `json:"uuid,omitempty"`
	Starts     int    `json:"starts,omitempty"`
	Assigned   string `json:"assigned,omitempty"`   // settings of its own
	Assignment string `json:"assignment,omitempty"` // what became of them

	AgeSeconds    int64 `json:"age_seconds,omitempty"`    // since its step, in a report
	SilentSeconds int64 `json:"silent_seconds,omitempty"` // since it was heard, in a report

	Since time.Time `json:"since,omitzero"` // the same by the clock of the supervisor, in an answer
	Heard time.Time `json:"heard,omitzero"`
}

// Boots asks for machines that start, after the first so many. The answer is a BootList.
type Boots struct {
	After int `json:"after,omitempty"`
	Max   int `json:"max,omitempty"` // as many as fit if 0
}

// BootList is what boot servers have said. Machines are those that were asked for, as far as they fit in an answer.
type BootList struct {
	Servers  []BootServer   `json:"servers"`
	Steps    map[string]int `json:"steps"` // how many machines are at each of BootSteps
	Failed   int            `json:"failed"`
	Total    int            `json:"total"`
	Machines []BootMachine  `json:"machines"`
}

// BootServer is a boot server that reports.
type BootServer struct {
	Token    string    `json:"token"` // the id of its token
	Name     string    `json:"name"`
	Heard    time.Time `json:"heard"` // what it has said is of then
	Image    string    `json:"image"`
	Trouble  string    `json:"trouble,omitempty"`
	Machines int       `json:"machines"`
}
