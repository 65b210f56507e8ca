package myceliumstub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

func (d *daemon) closed(err error) bool { return errors.Is(err, net.ErrClosed) }

// api returns the network part of the daemon's REST API. Like the daemon, it holds its only lock while a request waits
// for a message.
func (d *daemon) api() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(r *http.Request) (status int, said any)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			d.asked.Lock()
			defer d.asked.Unlock()
			status, said := answer(r)
			if text, ok := said.(string); ok {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, text)
				return
			}
			if said == nil {
				w.WriteHeader(status)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(said)
		})
	}
	nothing := func(*http.Request) (int, any) { return http.StatusOK, []any{} }
	handle("GET /api/v1/admin", d.info)
	handle("GET /api/v1/admin/peers", d.listPeers)
	handle("POST /api/v1/admin/peers", d.addPeer)
	handle("DELETE /api/v1/admin/peers/{endpoint}", d.deletePeer)
	handle("GET /api/v1/admin/routes/selected", d.listRoutes)
	handle("GET /api/v1/admin/routes/fallback", nothing)
	handle("GET /api/v1/admin/routes/queried", nothing)
	handle("GET /api/v1/messages", d.awaitMessage)
	handle("/api/v1/", func(*http.Request) (int, any) { return http.StatusNotFound, nil })
	for _, path := range []string{
		"admin", "admin/peers", "admin/routes/selected", "admin/routes/fallback", "admin/routes/queried", "messages",
	} {
		handle("/api/v1/"+path, func(*http.Request) (int, any) { return http.StatusMethodNotAllowed, nil })
	}
	return mux
}

func (d *daemon) info(*http.Request) (int, any) {
	return http.StatusOK, map[string]any{
		"nodeSubnet": subnetOf(d.address).String() + "/64", "nodeIp": d.address, "nodePubkey": fmt.Sprintf("%x", d.public),
		"nodeStartTime": d.began.Unix(),
	}
}

func (d *daemon) listPeers(*http.Request) (int, any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []any{}
	for at, p := range d.peers {
		all = append(all, map[string]any{
			"endpoint": map[string]any{"proto": p.proto, "addr": map[string]any{"socket": at.String()}},
			"type":     p.kind, "connectionState": p.state(), "txBytes": p.sent, "rxBytes": p.received, "discovered": 0,
			"lastConnected": nil,
		})
	}
	return http.StatusOK, all
}

func (d *daemon) addPeer(r *http.Request) (int, any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var asked struct {
		Endpoint *string `json:"endpoint"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return http.StatusBadRequest, "Failed to parse the request body as JSON: " + err.Error()
	}
	if asked.Endpoint == nil {
		return http.StatusUnprocessableEntity,
			"Failed to deserialize the JSON body into the target type: missing field `endpoint`"
	}
	at, err := endpoint(*asked.Endpoint)
	if err != nil {
		return http.StatusBadRequest, err.Error()
	}
	if d.peers[at.address] != nil {
		return http.StatusConflict, "A peer identified by that endpoint already exists"
	}
	d.peers[at.address] = &peer{kind: "static", proto: at.proto}
	return http.StatusNoContent, nil
}

func (d *daemon) deletePeer(r *http.Request) (int, any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, err := endpoint(r.PathValue("endpoint"))
	if err != nil {
		return http.StatusBadRequest, err.Error()
	}
	if d.peers[at.address] == nil {
		return http.StatusNotFound, "A peer identified by that endpoint does not exist"
	}
	delete(d.peers, at.address)
	return http.StatusNoContent, nil
}

func (d *daemon) listRoutes(*http.Request) (int, any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []any{}
	for subnet, r := range d.routes {
		var metric any = r.metric
		if time.Since(r.heard) > deadAfter {
			metric = "infinite"
		}
		all = append(all,
			map[string]any{
				"subnet": netip.PrefixFrom(subnet, 64), "nextHop": "TCP a <-> " + r.via.String(), "metric": metric, "seqno": 0,
			})
	}
	return http.StatusOK, all
}

// awaitMessage blocks all other requests until its timeout. It never receives a message.
func (d *daemon) awaitMessage(r *http.Request) (int, any) {
	seconds, _ := strconv.Atoi(r.FormValue("timeout"))
	t := time.NewTimer(time.Duration(seconds) * time.Second)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
	}
	return http.StatusNoContent, nil
}
