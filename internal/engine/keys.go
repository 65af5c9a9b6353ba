package engine

import (
	"context"
	"slices"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// AccountKeys returns the four keys of the account. It generates a key that was
// never set: such a key is not valid before the first call. The caller must be
// an administrator.
func (e *Engine) AccountKeys(ctx context.Context, caller auth.Caller) (auth.Keys, error) {
	if err := e.mayKeepKeys(caller); err != nil {
		return auth.Keys{}, err
	}
	keys := e.keysOf(e.catalog.View())
	var missing []resource.AccountKey
	for _, which := range resource.AccountKeys {
		if *keyOf(&keys, which) == "" {
			missing = append(missing, which)
		}
	}
	return e.makeKeys(ctx, missing)
}

// RegenerateKey replaces a key of the account by a new one, which is valid at
// once and after every restart, and returns all four. Requests signed with the
// old key are refused. Resource tokens are signed with the primary key, so they
// become invalid with it. An unknown name is 400. The caller must be an
// administrator.
func (e *Engine) RegenerateKey(ctx context.Context, caller auth.Caller, which resource.AccountKey) (auth.Keys, error) {
	if err := e.mayKeepKeys(caller); err != nil {
		return auth.Keys{}, err
	}
	if !slices.Contains(resource.AccountKeys, which) {
		return auth.Keys{}, status.BadRequest("The key %.64q is not one of primary, secondary, primaryReadonly and secondaryReadonly.", string(which))
	}
	keys, err := e.makeKeys(ctx, []resource.AccountKey{which})
	if err == nil {
		e.logger.Info("account key regenerated", "key", string(which))
	}
	return keys, err
}

func (e *Engine) mayKeepKeys(caller auth.Caller) error {
	if err := caller.Allow(auth.Administer, status.Path{}); err != nil {
		return err
	}
	if e.configured == nil {
		return status.Unsupported("An account without a configured key")
	}
	return nil
}

// makeKeys generates the listed keys, makes them valid, and returns all four.
func (e *Engine) makeKeys(ctx context.Context, list []resource.AccountKey) (auth.Keys, error) {
	if len(list) > 0 {
		configured := e.configured.Keys()
		change := catalog.PutAccountKeys{Keys: map[resource.AccountKey]resource.StoredKey{}}
		for _, which := range list {
			change.Keys[which] = resource.StoredKey{Key: auth.NewKey(), Replaces: resource.KeyDigest(*keyOf(&configured, which))}
		}
		if _, err := e.catalog.Commit(ctx, change); err != nil {
			return auth.Keys{}, fail(err)
		}
		e.refreshKeys()
	}
	return e.keysOf(e.catalog.View()), nil
}

// PrimaryKey returns the current primary key of the account, or "" if it has
// none.
func (e *Engine) PrimaryKey() string {
	if e.configured == nil {
		return ""
	}
	return e.keysOf(e.catalog.View()).Primary
}
