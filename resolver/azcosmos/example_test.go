package azcosmos_test

import (
	"context"
	"fmt"
	"log"
	"os"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// Move users from two containers to three while the program runs.
func Example() {
	if err := twoToThree(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// users-0: make the container
	// users-1: make the container
	// phase copy
	// phase verify
	// phase fence
	// phase switch
	// phase clean
	// 30 users in [users-0 users-1 users-2], none missing, none twice
}

func twoToThree(ctx context.Context) error {
	server, err := decan.Start(ctx, decan.Config{})
	if err != nil {
		return err
	}
	defer server.Close()
	credential, err := sdk.NewKeyCredential(server.Key())
	if err != nil {
		return err
	}
	account, err := sdk.NewClientWithKey(server.Endpoint(), credential, nil)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "resolver")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	// The layout: a ring of two containers, shared through a file.
	template := resolver.Template{
		Target:     resolver.Target{Name: "users-", Database: "shop", Container: "users-"},
		Definition: []byte(`{"partitionKey":{"paths":["/userId"],"kind":"Hash","version":2}}`),
	}
	targets, err := template.Numbered(3)
	if err != nil {
		return err
	}
	store := resolver.FileStore{Dir: dir}
	ring := resolver.Scheme{Kind: resolver.KindRing, Targets: []string{"users-0", "users-1"}}
	state := resolver.State{Key: resolver.KeySpec{Paths: []string{"/userId"}}, Targets: targets[:2], Current: resolver.Plan{Scheme: ring}}
	if _, err := resolver.SaveState(ctx, store, "users", state, ""); err != nil {
		return err
	}

	// A client that follows it.
	live, err := resolver.Watch(ctx, resolver.LiveConfig{Store: store, Name: "users"})
	if err != nil {
		return err
	}
	defer live.Close()
	client, err := azcosmos.New(azcosmos.Config{Accounts: map[string]*sdk.Client{"": account}, View: live})
	if err != nil {
		return err
	}
	managed := azcosmos.Managed{Client: client, Template: template}
	plan, err := managed.Plan(ctx, targets[:2])
	if err != nil {
		return err
	}
	for _, change := range plan {
		fmt.Println(change)
	}
	if err := managed.Apply(ctx, plan); err != nil {
		return err
	}
	for i := range 30 {
		if _, err := client.Create(ctx, fmt.Appendf(nil, `{"id":"%d","userId":"J%d"}`, i, i), nil); err != nil {
			return err
		}
	}

	// The move.
	shown := resolver.DualWrite
	mover, err := azcosmos.NewMover(azcosmos.MoverConfig{
		Client: client, Store: store, Name: "users",
		Ensure: managed.Ensure,                 // creates the third container
		Settle: azcosmos.SettleClients(client), // there is no other client
		OnProgress: func(p azcosmos.Progress) {
			if p.Phase != shown && p.Phase != resolver.Prepare && p.Phase != resolver.DualWrite {
				fmt.Println("phase", p.Phase)
				shown = p.Phase
			}
		},
	})
	if err != nil {
		return err
	}
	next, err := state.Current.WithTargets("", "users-0", "users-1", "users-2")
	if err != nil {
		return err
	}
	if err := mover.Begin(ctx, "third", targets, next); err != nil {
		return err
	}
	if _, err := mover.Run(ctx); err != nil {
		return err
	}
	count, _, err := client.Query("SELECT VALUE COUNT(1) FROM c", resolver.All[resolver.Key](), nil).Items(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, t := range live.Routing().Targets() {
		names = append(names, t.Name)
	}
	fmt.Printf("%s users in %v, none missing, none twice\n", count[0], names)
	return nil
}
