//! Runs the driver for Rust on the server at DECAN_CQL, with the user DECAN_CQL_USER and the
//! password DECAN_CQL_KEY, on version 4 of the protocol, its only one. ../run.sh runs it.

use std::collections::HashSet;
use std::env;
use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::client::Compression;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::Statement;
use scylla::value::{CqlValue, Row};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run compat/cassandra/run.sh"))
}

async fn connect(key: &str, compression: Option<Compression>) -> Outcome<Session> {
    let profile = ExecutionProfile::builder().request_timeout(Some(Duration::from_secs(60))).build();
    let session = SessionBuilder::new()
        .known_node(variable("DECAN_CQL"))
        .user(variable("DECAN_CQL_USER"), key)
        .compression(compression)
        .connection_timeout(Duration::from_secs(60))
        .default_execution_profile_handle(profile.into_handle())
        .build()
        .await?;
    Ok(session)
}

const REPLICATION: &str = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

async fn rows(session: &Session, text: String, page: i32) -> Outcome<Vec<Row>> {
    let mut statement = Statement::new(text);
    statement.set_page_size(page);
    let stream = session.query_iter(statement, ()).await?.rows_stream::<Row>()?;
    Ok(stream.try_collect().await?)
}

fn int(row: &Row, column: usize) -> i32 {
    match row.columns[column] {
        Some(CqlValue::Int(n)) => n,
        ref other => panic!("{other:?} is no int"),
    }
}

async fn program(compression: Option<Compression>) -> Outcome<()> {
    let ks = format!("rust_{}", compression.map_or("none".to_string(), |c| format!("{c:?}").to_lowercase()));
    let s = connect(&variable("DECAN_CQL_KEY"), compression).await?;
    s.query_unpaged(format!("CREATE KEYSPACE {ks} {REPLICATION}"), ()).await?;
    s.use_keyspace(&ks, false).await?;
    s.query_unpaged("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))", ()).await?;
    let insert = s.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)").await?;
    for i in 0..100 {
        s.execute_unpaged(&insert, (i, 0, i.to_string())).await?;
    }
    let read = s.prepare("SELECT v FROM t WHERE k = ? AND c = 0").await?;
    assert_eq!(s.execute_unpaged(&read, (7,)).await?.into_rows_result()?.first_row::<(String,)>()?.0, "7");
    for page in [10, 37, 5000] {
        let keys: HashSet<i32> = rows(&s, "SELECT k FROM t".into(), page).await?.iter().map(|r| int(r, 0)).collect();
        assert_eq!(keys.len(), 100, "pages of {page}");
    }
    for kind in [BatchType::Logged, BatchType::Unlogged] {
        let mut batch = Batch::new(kind);
        batch.append_statement(insert.clone());
        batch.append_statement("INSERT INTO t (k, c, v) VALUES (?, 0, ?)");
        s.batch(&batch, ((200, 0, "a"), (201, "b"))).await?;
    }
    assert_eq!(s.execute_unpaged(&read, (201,)).await?.into_rows_result()?.first_row::<(String,)>()?.0, "b");
    for applied in [true, false] {
        let answer = s.query_unpaged("INSERT INTO t (k, c, v) VALUES (300, 0, 'x') IF NOT EXISTS", ()).await?.into_rows_result()?;
        assert_eq!(answer.first_row::<Row>()?.columns[0], Some(CqlValue::Boolean(applied)));
    }
    let star = s.prepare("SELECT * FROM t WHERE k = 300 AND c = 0").await?;
    s.execute_unpaged(&star, ()).await?;
    s.query_unpaged("ALTER TABLE t ADD w int", ()).await?;
    s.execute_unpaged(&insert, (0, 0, "again")).await?; // The driver prepares again.
    assert_eq!(s.execute_unpaged(&star, ()).await?.into_rows_result()?.rows_num(), 1);
    assert!(s.query_unpaged("nonsense", ()).await.is_err_and(|e| e.to_string().contains("line 1:0")));
    s.refresh_metadata().await?;
    let state = s.get_cluster_state();
    let table = &state.get_keyspace(&ks).expect("the keyspace").tables["t"];
    assert_eq!(table.partition_key, ["k"]);
    assert_eq!(state.get_token_endpoints(&ks, "t", state.compute_token(&ks, "t", &(1,))?).len(), 1);
    types(&s, &ks).await
}

/// Reads a value of each type and writes it back: the server has the same value.
async fn types(s: &Session, ks: &str) -> Outcome<()> {
    for line in fs::read_to_string("compat/cassandra/types.cql")?.lines() {
        s.query_unpaged(line.replace("ks.", &format!("{ks}.")), ()).await?;
    }
    s.refresh_metadata().await?;
    let state = s.get_cluster_state();
    let mut names: Vec<&String> = state.get_keyspace(ks).expect("the keyspace").tables["types"].columns.keys().collect();
    names.retain(|name| *name != "k");
    let list = names.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ");
    let row = rows(s, format!("SELECT {list} FROM types WHERE k = 'literal'"), 10).await?.remove(0);
    let write = s.prepare(format!("INSERT INTO types (k, {list}) VALUES (?{})", ", ?".repeat(names.len()))).await?;
    for (k, columns) in [("driver", row.columns.clone()), ("nulls", vec![None; names.len()])] {
        let mut values = vec![Some(CqlValue::Text(k.into()))];
        values.extend(columns);
        s.execute_unpaged(&write, values).await?;
    }
    let mut texts = Vec::new();
    for k in ["literal", "driver"] {
        texts.push(rows(s, format!("SELECT JSON {list} FROM types WHERE k = '{k}'"), 10).await?.remove(0));
    }
    assert_eq!(texts[0], texts[1]);
    assert!(rows(s, format!("SELECT {list} FROM types WHERE k = 'nulls'"), 10).await?[0].columns.iter().all(Option::is_none));
    Ok(())
}

/// Calls the admin port.
fn admin(method: &str, path: &str) -> Outcome<String> {
    let host = variable("DECAN_ADMIN").trim_start_matches("http://").trim_end_matches('/').to_string();
    let mut conn = TcpStream::connect(&host)?;
    write!(conn, "{method} /{path} HTTP/1.1\r\nHost: {host}\r\nx-decan-key: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", variable("DECAN_CQL_KEY"))?;
    let mut answer = String::new();
    conn.read_to_string(&mut answer)?;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(answer)
}

fn partitions() -> Outcome<Vec<String>> {
    let answer = admin("GET", "partitions?database=rust_splits&container=t")?;
    let ids = answer.split("\"id\":\"").skip(1).filter(|part| part.contains("\"min\""));
    Ok(ids.map(|part| part.split('"').next().unwrap_or_default().to_string()).collect())
}

/// Writes and reads while all physical partitions of a table split: no statement fails, and
/// no row is lost or comes twice (S115, S142).
async fn splits() -> Outcome<()> {
    if env::var("DECAN_ADMIN").is_err() {
        return Ok(());
    }
    let s = Arc::new(connect(&variable("DECAN_CQL_KEY"), None).await?);
    s.query_unpaged(format!("CREATE KEYSPACE rust_splits {REPLICATION}"), ()).await?;
    s.query_unpaged("CREATE TABLE rust_splits.t (k int, c int, n int, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 20000", ()).await?;
    let insert = s.prepare("INSERT INTO rust_splits.t (k, c, n) VALUES (?, ?, 0)").await?;
    let change = s.prepare("UPDATE rust_splits.t SET n = 1 WHERE k = ? AND c = ? IF n = 0").await?;
    for i in 0..150 {
        s.execute_unpaged(&insert, (i, 9)).await?; // A partition with one key does not split.
    }
    let mut writers = Vec::new();
    for writer in 0..4 {
        let (s, insert, change) = (s.clone(), insert.clone(), change.clone());
        writers.push(tokio::spawn(async move {
            for i in 0..150 {
                s.execute_unpaged(&insert, (i, writer)).await?;
                let answer = s.execute_unpaged(&change, (i, writer)).await?.into_rows_result()?;
                assert_eq!(answer.first_row::<Row>()?.columns[0], Some(CqlValue::Boolean(true)));
            }
            Outcome::Ok(())
        }));
    }
    for _ in 0..2 {
        for id in partitions()? {
            admin("POST", &format!("partitions/split?database=rust_splits&container=t&partition={id}"))?;
            distinct(&s).await?;
        }
    }
    for writer in writers {
        writer.await??;
    }
    assert_eq!(distinct(&s).await?, 750);
    assert!(partitions()?.len() >= 4);
    Ok(())
}

async fn distinct(s: &Session) -> Outcome<usize> {
    let all = rows(s, "SELECT k, c FROM rust_splits.t".into(), 20).await?;
    let seen: HashSet<(i32, i32)> = all.iter().map(|r| (int(r, 0), int(r, 1))).collect();
    assert_eq!(seen.len(), all.len(), "a row comes twice");
    Ok(seen.len())
}

/// Writes until the server was killed and started again, which ../run.sh does when all drivers
/// wait for it: the session goes on, and no acknowledged row is lost.
async fn restart() -> Outcome<()> {
    let Ok(turns) = env::var("DECAN_TURNS") else { return Ok(()) };
    let s = connect(&variable("DECAN_CQL_KEY"), None).await?;
    s.query_unpaged(format!("CREATE KEYSPACE rust_restart {REPLICATION}"), ()).await?;
    s.query_unpaged("CREATE TABLE rust_restart.t (k int PRIMARY KEY)", ()).await?;
    let insert = s.prepare("INSERT INTO rust_restart.t (k) VALUES (?)").await?;
    fs::write(Path::new(&turns).join("rust"), "")?;
    let (mut written, mut after, mut i) = (HashSet::new(), 0, 0);
    let mut restarted = None;
    while after < 20 {
        if restarted.is_none() && Path::new(&turns).join("restarted").exists() {
            restarted = Some(Instant::now());
        }
        match s.execute_unpaged(&insert, (i,)).await {
            Ok(_) => {
                written.insert(i);
                after += i32::from(restarted.is_some());
            }
            Err(err) => {
                assert!(restarted.is_none_or(|at| at.elapsed() < Duration::from_secs(120)), "no write succeeds after the restart: {err}");
            }
        }
        let waits = restarted.is_none() && i >= 20; // The others take their time.
        tokio::time::sleep(Duration::from_millis(if waits { 300 } else { 20 })).await;
        i += 1;
    }
    let seen: HashSet<i32> = rows(&s, "SELECT k FROM rust_restart.t".into(), 100).await?.iter().map(|r| int(r, 0)).collect();
    assert!(written.is_subset(&seen), "acknowledged rows are lost");
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome<()> {
    for compression in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
        program(compression).await?;
    }
    assert!(connect("d3Jvbmcga2V5IG9mIHNpeHRlZW4gYnl0ZXM=", None).await.is_err(), "a wrong key is accepted");
    splits().await?;
    restart().await?;
    println!("the driver for Rust: version 4, splits, a restart: OK");
    Ok(())
}
