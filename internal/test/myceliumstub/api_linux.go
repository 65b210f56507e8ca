package myceliumstub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"writ/internal/sleep"
)

// api is the network part of the daemon's REST API.
type api struct {
	began   time.Time
	public  []byte
	address netip.Addr
	table   *table
	asked   sync.Mutex // serialises requests
}

// handler returns the routes. Like the daemon, the API holds its only lock while a request waits for a message.
func (a *api) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(r *http.Request) (status int, said any)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			a.asked.Lock()
			defer a.asked.Unlock()
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
	handle("GET /api/v1/admin", a.info)
	handle("GET /api/v1/admin/peers", a.listPeers)
	handle("POST /api/v1/admin/peers", a.addPeer)
	handle("DELETE /api/v1/admin/peers/{endpoint}", a.deletePeer)
	handle("GET /api/v1/admin/routes/selected", a.listRoutes)
	handle("GET /api/v1/admin/routes/fallback", nothing)
	handle("GET /api/v1/admin/routes/queried", nothing)
	handle("GET /api/v1/messages", a.awaitMessage)
	handle("/api/v1/", func(*http.Request) (int, any) { return http.StatusNotFound, nil })
	for _, path := range []string{
		"admin", "admin/peers", "admin/routes/selected", "admin/routes/fallback", "admin/routes/queried", "messages",
	} {
		handle("/api/v1/"+path, func(*http.Request) (int, any) { return http.StatusMethodNotAllowed, nil })
	}
	return mux
}

func (a *api) info(*http.Request) (int, any) {
	return http.StatusOK, map[string]any{
		"nodeSubnet": subnetOf(a.address).String() + "/64", "nodeIp": a.address, "nodePubkey": fmt.Sprintf("%x", a.public),
		"nodeStartTime": a.began.Unix(),
	}
}

func (a *api) listPeers(*http.Request) (int, any) {
	peers, _ := a.table.copies()
	all := []any{}
	for at, p := range peers {
		all = append(all, map[string]any{
			"endpoint": map[string]any{"proto": p.proto, "addr": map[string]any{"socket": at.String()}},
			"type":     p.kind, "connectionState": p.state(), "txBytes": p.sent, "rxBytes": p.received, "discovered": 0,
			"lastConnected": nil,
		})
	}
	return http.StatusOK, all
}

func (a *api) addPeer(r *http.Request) (int, any) {
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
	if !a.table.add(at.address, peer{kind: "static", proto: at.proto}) {
		return http.StatusConflict, "A peer identified by that endpoint already exists"
	}
	return http.StatusNoContent, nil
}

func (a *api) deletePeer(r *http.Request) (int, any) {
	at, err := endpoint(r.PathValue("endpoint"))
	if err != nil {
		return http.StatusBadRequest, err.Error()
	}
	if !a.table.remove(at.address) {
		return http.StatusNotFound, "A peer identified by that endpoint does not exist"
	}
	return http.StatusNoContent, nil
}

func (a *api) listRoutes(*http.Request) (int, any) {
	_, routes := a.table.copies()
	all := []any{}
	for subnet, r := range routes {
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
func (a *api) awaitMessage(r *http.Request) (int, any) {
	seconds, _ := strconv.Atoi(r.FormValue("timeout"))
	_ = sleep.For(r.Context(), time.Duration(seconds)*time.Second)
	return http.StatusNoContent, nil
}
