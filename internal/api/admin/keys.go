package admin

import (
	"net/http"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/resource"
)

// keyRoutes adds the paths of account keys in the form of the service's management API,
// with and without the path of the account.
func (h *handler) keyRoutes(mux *http.ServeMux) {
	for _, account := range []string{accountPath, ""} {
		mux.HandleFunc("POST "+account+"/listKeys", h.keyed(h.listKeys))
		mux.HandleFunc("POST "+account+"/readonlykeys", h.keyed(h.listReadonlyKeys))
		mux.HandleFunc("GET "+account+"/readonlykeys", h.keyed(h.listReadonlyKeys))
		mux.HandleFunc("POST "+account+"/regenerateKey", h.keyed(h.regenerateKey))
	}
}

type readonlyKeys struct {
	Primary   string `json:"primaryReadonlyMasterKey"`
	Secondary string `json:"secondaryReadonlyMasterKey"`
}

type accountKeys struct {
	Primary   string `json:"primaryMasterKey"`
	Secondary string `json:"secondaryMasterKey"`
	readonlyKeys
}

func describeKeys(keys auth.Keys) accountKeys {
	return accountKeys{keys.Primary, keys.Secondary, readonlyKeys{keys.PrimaryReadonly, keys.SecondaryReadonly}}
}

func (h *handler) listKeys(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if _, err := h.managed(hr); err != nil {
		return err
	}
	keys, err := h.engine.AccountKeys(hr.Context(), caller)
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, describeKeys(keys))
}

func (h *handler) listReadonlyKeys(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if _, err := h.managed(hr); err != nil {
		return err
	}
	keys, err := h.engine.AccountKeys(hr.Context(), caller)
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, describeKeys(keys).readonlyKeys)
}

// regenerateKey answers with all keys, unlike the service: a client that has replaced
// its only key could not request the new one.
func (h *handler) regenerateKey(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if _, err := h.managed(hr); err != nil {
		return err
	}
	body, err := h.readObject(hw, hr)
	if err != nil {
		return err
	}
	keys, err := h.engine.RegenerateKey(hr.Context(), caller, resource.AccountKey(body.Get("keyKind").Text()))
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, describeKeys(keys))
}
