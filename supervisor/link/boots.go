package link

import (
	"bytes"
	"encoding/json"
	"time"

	"writ"
)

// Limits of the information about booting machines.
const (
	MaxBootServers  = 8    // per datacenter; beyond this limit, the server with the longest silence is dropped
	MaxBootMachines = 4096 // per boot server, and per answer
)

// BootSteps lists the steps of a booting machine in order. Boot servers count machines per step, and all other steps as
// BootOther.
var BootSteps = []string{
	"script", "loading", "sent", "start", "network", "data", "config", "clock", "service", "runner", "waits", "approve",
	"joined", "off", BootOther,
}

// BootOther counts machines at a step outside of BootSteps, and machines that have not contacted their boot server yet.
const BootOther = "other"

// BootReport is a boot server's report about the machines of its site. It is based on unauthenticated statements of the
// machines, so it is shown to people and affects no decision.
type BootReport struct {
	Name     string       `json:"name"`              // name of its host
	Image    string       `json:"image"`             // digest of the image for machines
	Trouble  string       `json:"trouble,omitempty"` // why the settings of individual machines cannot be read
	Machines BootMachines `json:"machines"`          // ordered by their last step, newest first
}

// BootMachines rejects more than MaxBootMachines when it is decoded: in memory, a list of empty machines takes a
// hundred times the size of its text.
type BootMachines []BootMachine

// UnmarshalJSON implements json.Unmarshaler. It returns TOO_LARGE for more than MaxBootMachines.
func (l *BootMachines) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return writ.Errorf(writ.CodeBadRequest, "machines must be a list")
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

// BootMachine is the boot progress of a machine. Reports contain ages instead of times, because the clock of a boot
// server may differ.
type BootMachine struct {
	// MAC is the MAC address. For a machine that has settings of its own and has not contacted its boot server yet, it is
	// "serial=" and the serial number.
	MAC        string `json:"mac"`
	Server     string `json:"server,omitempty"`
	Node       string `json:"node,omitempty"` // its name as a node, as reported by the machine
	Step       string `json:"step,omitempty"` // "" before its first contact
	Failed     bool   `json:"failed,omitempty"`
	Advice     string `json:"advice"`
	Address    string `json:"address,omitempty"`
	Serial     string `json:"serial,omitempty"`
	Asset      string `json:"asset,omitempty"`
	UUID       string `json:"uuid,omitempty"`
	Starts     int    `json:"starts,omitempty"`
	Assigned   string `json:"assigned,omitempty"`   // settings of its own
	Assignment string `json:"assignment,omitempty"` // the result of applying them

	AgeSeconds    int64 `json:"age_seconds,omitempty"`    // since its step; only in reports
	SilentSeconds int64 `json:"silent_seconds,omitempty"` // since its last message; only in reports

	Since time.Time `json:"since,omitzero"` // time of its step by the supervisor's clock; only in answers
	Heard time.Time `json:"heard,omitzero"`
}

// Boots asks for booting machines. After is the number of machines to skip at the start of the list. The answer is a
// BootList.
type Boots struct {
	After int `json:"after,omitempty"`
	Max   int `json:"max,omitempty"` // 0: limited only by the size of a frame
}

// BootList holds the reports of boot servers. Machines lists the requested machines that fit into an answer.
type BootList struct {
	Servers  []BootServer   `json:"servers"`
	Steps    map[string]int `json:"steps"` // number of machines at each of BootSteps
	Failed   int            `json:"failed"`
	Total    int            `json:"total"`
	Machines []BootMachine  `json:"machines"`
}

// BootServer is a reporting boot server.
type BootServer struct {
	Token    string    `json:"token"` // ID of its token
	Name     string    `json:"name"`
	Heard    time.Time `json:"heard"` // time of its last report
	Image    string    `json:"image"`
	Trouble  string    `json:"trouble,omitempty"`
	Machines int       `json:"machines"`
}
