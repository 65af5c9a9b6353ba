//! What an application does with the SDK for Rust and its defaults, which are HTTP/2
//! and binary JSON. Run by ../run.sh:
//!
//!     compat scenario ENDPOINT...   items, hierarchical keys, queries, batches, change feed
//!     compat splits ENDPOINT        the same while partitions of 256 KB split
//!
//! A check that fails ends the program with a panic, which names the line.

use azure_core::credentials::Secret;
use azure_data_cosmos::clients::{ContainerClient, DatabaseClient};
use azure_data_cosmos::models::{ChangeFeedItem, ChangeFeedOperationType, ChangeFeedPolicy};
use azure_data_cosmos::models::{ContainerProperties, ThroughputProperties};
use azure_data_cosmos::options::{
    ChangeFeedMode, ChangeFeedOptions, ChangeFeedStartFrom, ContentResponseOnWrite,
    CreateContainerOptions, ItemReadOptions, ItemWriteOptions, MaxItemCountHint,
    OperationOptionsBuilder, Precondition, QueryOptions, Region,
};
use azure_data_cosmos::{
    AccountReference, CosmosClient, CosmosError, FeedScope, PartitionKey, Query, RoutingStrategy,
    TransactionalBatch,
};
use futures::{StreamExt, TryStreamExt};
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::{Duration, Instant, SystemTime};

type Failure = Box<dyn std::error::Error>;

const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
struct Event {
    id: String,
    tenant: String,
    user: String,
    n: i64,
    text: String,
}

impl Event {
    fn new(n: i64) -> Self {
        Self {
            id: format!("e{n}"),
            tenant: format!("t{}", n % 3),
            user: format!("u{}", n % 7),
            n,
            text: format!("ä€😀 \t \"{n}\""),
        }
    }

    fn key(&self) -> PartitionKey {
        PartitionKey::from((&self.tenant, &self.user))
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().expect("scenario or splits");
    for endpoint in arguments {
        let client = connect(&endpoint).await?;
        let stamp = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)?
            .as_nanos();
        let name = format!("compat-rust-{stamp}");
        client.create_database(&name, None).await?;
        let database = client.database_client(name.clone());
        if what == "splits" {
            splits(&database).await?;
        } else {
            items(&database).await?;
            hierarchical_keys(&database).await?;
            queries(&database).await?;
            batches(&database).await?;
            latest_versions(&database).await?;
            all_versions(&database).await?;
        }
        database.delete(None).await?;
        println!("{what} over {endpoint} passed");
    }
    Ok(())
}

async fn connect(endpoint: &str) -> Result<CosmosClient, Failure> {
    let account =
        AccountReference::with_authentication_key(endpoint.parse()?, Secret::from(KEY.to_string()));
    let region = RoutingStrategy::ProximityTo(Region::EAST_US);
    Ok(CosmosClient::builder().build(account, region).await?)
}

/// Creates a container; the server makes one partition per 6,000 RU/s.
async fn create(
    database: &DatabaseClient,
    properties: ContainerProperties,
    partitions: u64,
) -> Result<ContainerClient, Failure> {
    let options = CreateContainerOptions::default()
        .with_throughput(ThroughputProperties::manual(6000 * partitions));
    let id = properties.id.to_string();
    database.create_container(properties, Some(options)).await?;
    Ok(database.container_client(id, None).await?)
}

fn with_content() -> azure_data_cosmos::options::OperationOptions {
    OperationOptionsBuilder::new()
        .with_content_response_on_write(ContentResponseOnWrite::Enabled)
        .build()
}

fn refused<T>(result: Result<T, CosmosError>, status: u16) {
    match result {
        Ok(_) => panic!("accepted, want {status}"),
        Err(e) => assert_eq!(u16::from(e.status().status_code()), status, "{e}"),
    }
}

async fn rows<T: DeserializeOwned + Send + 'static>(
    container: &ContainerClient,
    query: &str,
    scope: FeedScope,
) -> Result<Vec<T>, Failure> {
    Ok(container
        .query_items::<T>(Query::from(query), scope, None)
        .await?
        .try_collect()
        .await?)
}

async fn items(database: &DatabaseClient) -> Result<(), Failure> {
    let container = create(
        database,
        ContainerProperties::new("items", "/tenant".into()),
        1,
    )
    .await?;
    let event = Event::new(1);
    let created = container
        .create_item(&event.tenant, &event.id, &event, None)
        .await?;
    assert_eq!(u16::from(created.status().status_code()), 201);
    assert!(created.headers().request_charge().is_some());
    refused(
        container
            .create_item(&event.tenant, &event.id, &event, None)
            .await,
        409,
    );

    let read = container.read_item(&event.tenant, &event.id, None).await?;
    let etag = read.headers().etag().expect("an etag").clone();
    assert_eq!(read.into_model::<Event>()?, event);
    refused(container.read_item(&event.tenant, "none", None).await, 404);

    // Values that have forms of their own in binary JSON.
    let values = json!({"id": "values", "tenant": "t1", "list": [0, -1, 127, 128, 32768, 2147483648i64, 9007199254740993i64, 0.5, -1e300, true, null, [], {}],
        "guid": "01234567-89ab-cdef-0123-456789abcdef", "date": "2026-11-23T21:00:00.0000000Z", "long": "x".repeat(70_000), "": "empty name"});
    container.upsert_item("t1", "values", &values, None).await?;
    let mut stored: Value = container
        .read_item("t1", "values", None)
        .await?
        .into_model()?;
    let object = stored.as_object_mut().expect("an object");
    object.retain(|name, _| !name.starts_with('_'));
    assert_eq!(stored, values);

    let mut changed = event.clone();
    changed.n = 2;
    let written = ItemWriteOptions::default().with_operation_options(with_content());
    let answer = container
        .replace_item(&event.tenant, &event.id, &changed, Some(written))
        .await?;
    assert_eq!(answer.into_model::<Event>()?, changed);
    let stale = ItemWriteOptions::default().with_precondition(Precondition::if_match(etag.clone()));
    refused(
        container
            .replace_item(&event.tenant, &event.id, &event, Some(stale))
            .await,
        412,
    );
    let known = ItemReadOptions::default().with_precondition(Precondition::if_none_match(etag));
    assert_eq!(
        container
            .read_item(&event.tenant, &event.id, Some(known))
            .await?
            .into_model::<Event>()?,
        changed
    );

    container
        .delete_item(&event.tenant, &event.id, None)
        .await?;
    refused(
        container.delete_item(&event.tenant, &event.id, None).await,
        404,
    );
    let large = json!({"id": "large", "tenant": "t1", "text": "x".repeat(3 << 20)});
    refused(
        container.create_item("t1", "large", &large, None).await,
        413,
    );

    // Many requests at a time share a connection.
    let written = futures::stream::iter(0..200).map(|n| {
        let container = &container;
        async move {
            let event = Event {
                tenant: "t1".into(),
                ..Event::new(n)
            };
            container.upsert_item("t1", &event.id, &event, None).await
        }
    });
    let written: Vec<_> = written.buffer_unordered(64).try_collect().await?;
    assert_eq!(written.len(), 200);
    Ok(())
}

async fn hierarchical_keys(database: &DatabaseClient) -> Result<(), Failure> {
    let container = create(
        database,
        ContainerProperties::new("keys", ("/tenant", "/user").into()),
        3,
    )
    .await?;
    let mut events = Vec::new();
    for n in 0..60 {
        let event = Event::new(n);
        container
            .create_item(event.key(), &event.id, &event, None)
            .await?;
        events.push(event);
    }
    for event in &events {
        assert_eq!(
            &container
                .read_item(event.key(), &event.id, None)
                .await?
                .into_model::<Event>()?,
            event
        );
    }
    let ids = |found: Vec<Event>| found.into_iter().map(|e| e.n).collect::<BTreeSet<_>>();
    let all = "SELECT * FROM c";
    for tenant in 0..3 {
        let want = (0..60).filter(|n| n % 3 == tenant).collect::<BTreeSet<_>>();
        let scope = FeedScope::partition(PartitionKey::from(format!("t{tenant}")));
        assert_eq!(
            ids(rows(&container, all, scope).await?),
            want,
            "prefix t{tenant}"
        );
        let want = (0..60)
            .filter(|n| n % 3 == tenant && n % 7 == 4)
            .collect::<BTreeSet<_>>();
        let scope = FeedScope::partition((format!("t{tenant}"), "u4".to_string()));
        assert_eq!(
            ids(rows(&container, all, scope).await?),
            want,
            "key t{tenant}, u4"
        );
    }
    assert_eq!(
        ids(rows(&container, all, FeedScope::full_container()).await?).len(),
        60
    );
    let mut found = BTreeSet::new();
    let ranges = container.read_feed_ranges(None).await?;
    assert_eq!(ranges.len(), 3);
    for range in ranges {
        for event in rows::<Event>(&container, all, FeedScope::range(range)).await? {
            assert!(found.insert(event.n), "{} comes twice", event.n);
        }
    }
    assert_eq!(found.len(), 60);
    refused(container.read_item(("t1", "u2"), "e0", None).await, 404);
    Ok(())
}

async fn queries(database: &DatabaseClient) -> Result<(), Failure> {
    let container = create(
        database,
        ContainerProperties::new("queries", "/tenant".into()),
        3,
    )
    .await?;
    for n in 0..90 {
        let event = Event {
            tenant: format!("t{}", n % 10),
            ..Event::new(n)
        };
        container
            .create_item(event.tenant.clone(), &event.id, &event, None)
            .await?;
    }
    let full = FeedScope::full_container;
    let of_key = rows::<i64>(
        &container,
        "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
        FeedScope::partition("t4"),
    )
    .await?;
    assert_eq!(of_key, [84, 74, 64, 54, 44, 34, 24, 14, 4]);
    let sorted = rows::<i64>(&container, "SELECT VALUE c.n FROM c ORDER BY c.n", full()).await?;
    assert_eq!(sorted, (0..90).collect::<Vec<_>>());
    let some = rows::<i64>(
        &container,
        "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 5",
        full(),
    )
    .await?;
    assert_eq!(some, [10, 11, 12, 13, 14]);
    let top = rows::<i64>(
        &container,
        "SELECT TOP 3 VALUE c.n FROM c WHERE c.n > 50 ORDER BY c.n",
        full(),
    )
    .await?;
    assert_eq!(top, [51, 52, 53]);
    let query = Query::from("SELECT VALUE c.n FROM c WHERE c.user = @user AND c.n < @n")
        .with_parameter("@user", "u3")?
        .with_parameter("@n", 40)?;
    let found: BTreeSet<i64> = container
        .query_items::<i64>(query, full(), None)
        .await?
        .try_collect()
        .await?;
    assert_eq!(found, BTreeSet::from([3, 10, 17, 24, 31, 38]));
    let within = rows::<Value>(
        &container,
        "SELECT COUNT(1) AS k, SUM(c.n) AS s FROM c",
        FeedScope::partition("t4"),
    )
    .await?;
    assert_eq!(within, [json!({"k": 9, "s": 396})]);

    // Pages, each by a new iterator.
    let mut token = None;
    let mut paged = Vec::new();
    loop {
        let mut options = QueryOptions::default()
            .with_max_item_count(MaxItemCountHint::Limit(NonZeroU32::new(7).unwrap()));
        if let Some(token) = token.take() {
            options = options.with_continuation_token(token);
        }
        let mut pages = container
            .query_items::<i64>(
                "SELECT VALUE c.n FROM c ORDER BY c.n",
                full(),
                Some(options),
            )
            .await?
            .into_pages();
        let Some(page) = pages.next().await else {
            break;
        };
        paged.extend(page?.into_items());
        if paged.len() >= 90 {
            break;
        }
        token = Some(pages.to_continuation_token()?);
    }
    assert_eq!(paged, (0..90).collect::<Vec<_>>());
    let broken = container
        .query_items::<Value>("SELECT FROM", FeedScope::partition("t1"), None)
        .await?;
    refused(broken.try_collect::<Vec<_>>().await, 400);
    Ok(())
}

async fn batches(database: &DatabaseClient) -> Result<(), Failure> {
    let container = create(
        database,
        ContainerProperties::new("batches", "/tenant".into()),
        1,
    )
    .await?;
    let event = |n| Event {
        tenant: "t".into(),
        ..Event::new(n)
    };
    let batch = TransactionalBatch::new("t")
        .create_item(event(1))?
        .upsert_item(event(2), None)?
        .read_item("e1", None)
        .delete_item("e2", None);
    let options =
        azure_data_cosmos::options::BatchOptions::default().with_operation_options(with_content());
    let results = container
        .execute_transactional_batch(batch, Some(options))
        .await?
        .into_model()?;
    let statuses: Vec<_> = results.results().iter().map(|r| r.status_code()).collect();
    assert_eq!(statuses, [201, 201, 200, 204]);
    assert_eq!(results.results()[2].into_model::<Event>()?, Some(event(1)));

    let batch = TransactionalBatch::new("t")
        .create_item(event(3))?
        .create_item(event(1))?;
    let results = container
        .execute_transactional_batch(batch, None)
        .await?
        .into_model()?;
    let statuses: Vec<_> = results.results().iter().map(|r| r.status_code()).collect();
    assert_eq!(statuses, [424, 409]);
    refused(container.read_item("t", "e3", None).await, 404);
    Ok(())
}

/// Reads pages of a feed until three in a row are empty.
async fn changes(
    container: &ContainerClient,
    scope: FeedScope,
    start: ChangeFeedStartFrom,
    options: ChangeFeedOptions,
) -> Result<
    (
        Vec<ChangeFeedItem<Event>>,
        azure_data_cosmos::feed::ContinuationToken,
    ),
    Failure,
> {
    let mut pages = container
        .query_change_feed::<Event>(scope, start, Some(options))
        .await?;
    let mut found = Vec::new();
    let mut empty = 0;
    while empty < 3 {
        let page = pages.next().await.expect("a feed has no end")?;
        empty = if page.items().is_empty() {
            empty + 1
        } else {
            0
        };
        found.extend(page.into_items());
    }
    Ok((found, pages.to_continuation_token()?))
}

async fn latest_versions(database: &DatabaseClient) -> Result<(), Failure> {
    let container = create(
        database,
        ContainerProperties::new("feed", ("/tenant", "/user").into()),
        3,
    )
    .await?;
    for n in 0..30 {
        container
            .create_item(Event::new(n).key(), &format!("e{n}"), Event::new(n), None)
            .await?;
    }
    let numbers = |found: Vec<ChangeFeedItem<Event>>| {
        let mut numbers: Vec<_> = found
            .iter()
            .map(|c| c.current().expect("a document").n)
            .collect();
        numbers.sort();
        numbers
    };
    let options = || {
        ChangeFeedOptions::default()
            .with_max_item_count(MaxItemCountHint::Limit(NonZeroU32::new(4).unwrap()))
    };
    let (found, token) = changes(
        &container,
        FeedScope::full_container(),
        ChangeFeedStartFrom::Beginning,
        options(),
    )
    .await?;
    assert_eq!(numbers(found), (0..30).collect::<Vec<_>>());
    for n in 30..35 {
        container
            .create_item(Event::new(n).key(), &format!("e{n}"), Event::new(n), None)
            .await?;
    }
    let resumed = options().with_continuation_token(token);
    let (found, _) = changes(
        &container,
        FeedScope::full_container(),
        ChangeFeedStartFrom::Beginning,
        resumed,
    )
    .await?;
    assert_eq!(numbers(found), [30, 31, 32, 33, 34]);
    let (found, _) = changes(
        &container,
        FeedScope::partition(("t1", "u4")),
        ChangeFeedStartFrom::Beginning,
        options(),
    )
    .await?;
    assert_eq!(numbers(found), [4, 25]);
    let (found, _) = changes(
        &container,
        FeedScope::full_container(),
        ChangeFeedStartFrom::Now,
        options(),
    )
    .await?;
    assert!(found.is_empty());
    Ok(())
}

async fn all_versions(database: &DatabaseClient) -> Result<(), Failure> {
    let policy = ChangeFeedPolicy::default().with_retention_duration(Duration::from_secs(600));
    let properties = ContainerProperties::new("versions", ("/tenant", "/user").into())
        .with_change_feed_policy(policy);
    let container = create(database, properties, 1).await?;
    let options = || ChangeFeedOptions::default().with_mode(ChangeFeedMode::AllVersionsAndDeletes);
    let (found, token) = changes(
        &container,
        FeedScope::full_container(),
        ChangeFeedStartFrom::Now,
        options(),
    )
    .await?;
    assert!(found.is_empty());
    let mut event = Event::new(1);
    container
        .create_item(event.key(), "e1", &event, None)
        .await?;
    event.n = 2;
    container
        .replace_item(event.key(), "e1", &event, None)
        .await?;
    container.delete_item(event.key(), "e1", None).await?;
    let (found, _) = changes(
        &container,
        FeedScope::full_container(),
        ChangeFeedStartFrom::Now,
        options().with_continuation_token(token),
    )
    .await?;
    let kinds: Vec<_> = found.iter().map(|c| c.operation_type()).collect();
    use ChangeFeedOperationType::{Create, Delete, Replace};
    assert_eq!(kinds, [Some(Create), Some(Replace), Some(Delete)]);
    let versions: Vec<_> = found.iter().map(|c| c.current().map(|e| e.n)).collect();
    assert_eq!(versions, [Some(1), Some(2), None]);
    Ok(())
}

/// Writers, a reader of queries and a reader of the feed, while partitions split.
async fn splits(database: &DatabaseClient) -> Result<(), Failure> {
    const WRITERS: i64 = 4;
    const EACH: i64 = 250;
    let container = create(
        database,
        ContainerProperties::new("splits", ("/tenant", "/user").into()),
        1,
    )
    .await?;
    let event = |n: i64| Event {
        tenant: format!("t{}", n % 40),
        text: "x".repeat(1500),
        ..Event::new(n)
    };
    let written = futures::future::try_join_all((0..WRITERS).map(|w| {
        let container = &container;
        async move {
            for n in (w * EACH)..((w + 1) * EACH) {
                container
                    .create_item(event(n).key(), &format!("e{n}"), event(n), None)
                    .await?;
            }
            Ok::<_, Failure>(())
        }
    }));
    let read = async {
        let mut before = 0;
        while before < (WRITERS * EACH) as usize {
            let found = rows::<i64>(
                &container,
                "SELECT VALUE c.n FROM c ORDER BY c.n",
                FeedScope::full_container(),
            )
            .await?;
            assert!(
                found.is_sorted_by(|a, b| a < b),
                "items come twice or in a wrong order"
            );
            assert!(
                found.len() >= before,
                "{} items after {before}",
                found.len()
            );
            before = found.len();
        }
        Ok::<_, Failure>(())
    };
    let follow = async {
        let began = Instant::now();
        let mut seen = BTreeMap::new();
        let mut pages = container
            .query_change_feed::<Event>(
                FeedScope::full_container(),
                ChangeFeedStartFrom::Beginning,
                None,
            )
            .await?;
        while seen.len() < (WRITERS * EACH) as usize {
            assert!(
                began.elapsed() < Duration::from_secs(300),
                "{} items are in the feed",
                seen.len()
            );
            for change in pages.next().await.expect("a feed has no end")?.into_items() {
                *seen
                    .entry(change.current().expect("a document").n)
                    .or_insert(0) += 1;
            }
        }
        let twice: Vec<_> = seen.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "changes come twice: {twice:?}");
        Ok::<_, Failure>(())
    };
    futures::try_join!(written, read, follow)?;
    // A new client sees the partitions as they are.
    let ranges = container.read_feed_ranges(None).await?;
    assert!(ranges.len() > 3, "{} partitions", ranges.len());
    for n in (0..WRITERS * EACH).step_by(17) {
        assert_eq!(
            container
                .read_item(event(n).key(), &format!("e{n}"), None)
                .await?
                .into_model::<Event>()?,
            event(n)
        );
    }
    println!("{} partitions", ranges.len());
    Ok(())
}
