"""LangChain's vector store and chat history, and LangGraph's checkpoints and store."""

import operator
import os
import unittest
import uuid
from typing import Annotated, TypedDict

from azure.cosmos import CosmosClient, PartitionKey
from langchain_azure_cosmosdb import (
    AzureCosmosDBNoSqlVectorSearch,
    CosmosDBChatMessageHistory,
    CosmosDBSaverSync,
    CosmosDBStore,
)
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph

ENDPOINT = os.environ["DECAN_ENDPOINT"]
KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
LETTERS = "abcdehlo"


class Letters(Embeddings):
    """Embeds a text as the number of occurrences of each of eight letters."""

    def embed_query(self, text):
        return [0.01 + text.count(letter) for letter in LETTERS]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


class Apps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = CosmosClient(ENDPOINT, KEY)
        cls.database = f"apps-{uuid.uuid4()}"
        cls.client.create_database(cls.database)

    @classmethod
    def tearDownClass(cls):
        cls.client.delete_database(cls.database)


class VectorStore(Apps):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.store = AzureCosmosDBNoSqlVectorSearch.from_texts(
            ["aaab b winter", "bbbc b storm", "cccd c winter storm", "ddde d", "eeeh e", "aabb a", "hello storm"],
            Letters(),
            metadatas=[{"n": n, "kind": "odd" if n % 2 else "even"} for n in range(7)],
            cosmos_client=cls.client,
            database_name=cls.database,
            container_name="vectors",
            vector_embedding_policy={
                "vectorEmbeddings": [{"path": "/embedding", "dataType": "float32", "distanceFunction": "cosine", "dimensions": 8}]
            },
            indexing_policy={
                "indexingMode": "consistent",
                "includedPaths": [{"path": "/*"}],
                "excludedPaths": [{"path": '/"_etag"/?'}],
                "vectorIndexes": [{"path": "/embedding", "type": "quantizedFlat"}],
                "fullTextIndexes": [{"path": "/text"}],
            },
            full_text_policy={"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/text", "language": "en-US"}]},
            cosmos_container_properties={"partition_key": PartitionKey(path="/id")},
            cosmos_database_properties={},
            vector_search_fields={"text_field": "text", "embedding_field": "embedding"},
            full_text_search_enabled=True,
        )

    def texts(self, *args, **options):
        return [document.page_content for document in self.store.similarity_search(*args, **options)]

    def test_similarity(self):
        self.assertEqual(self.texts("aaa", k=1), ["aabb a"])
        scored = self.store.similarity_search_with_score("ddd", k=3)
        self.assertEqual(scored[0][0].page_content, "ddde d")
        self.assertGreater(scored[0][1], scored[1][1])
        self.assertEqual(scored[0][0].metadata["n"], 3)

    def test_filter(self):
        self.assertEqual(self.texts("aaa", k=2, where="c.metadata.kind = 'odd' AND c.metadata.n > 3"), ["aabb a"])

    def test_offset_limit(self):
        self.assertEqual(self.texts("aaa", offset_limit="OFFSET 1 LIMIT 1"), ["aaab b winter"])

    def test_threshold(self):
        self.assertEqual(self.texts("ddd", k=7, search_type="vector_score_threshold", threshold=0.9), ["ddde d"])

    def test_diversity(self):
        self.assertEqual(len(self.store.max_marginal_relevance_search("aab", k=3, fetch_k=7)), 3)

    def test_full_text(self):
        found = self.texts("x", k=5, search_type="full_text_search", where="FullTextContains(c.text, 'storm')")
        self.assertEqual(sorted(found), ["bbbc b storm", "cccd c winter storm", "hello storm"])
        ranked = self.texts("x", k=1, search_type="full_text_ranking", full_text_rank_filter=[{"search_field": "text", "search_text": "winter storm"}])
        self.assertEqual(ranked, ["cccd c winter storm"])

    def test_hybrid(self):
        words = [{"search_field": "text", "search_text": "storm"}]
        self.assertEqual(self.texts("hello", k=1, search_type="hybrid", full_text_rank_filter=words), ["hello storm"])
        weighted = self.texts("bbb", k=1, search_type="hybrid", full_text_rank_filter=words, weights=[1.0, 3.0])
        self.assertEqual(weighted, ["bbbc b storm"])

    def test_retriever(self):
        self.assertEqual([d.page_content for d in self.store.as_retriever(k=1).invoke("hhh eee")], ["eeeh e"])

    def test_delete(self):
        (added,) = self.store.add_texts(["zzz"], [{"n": 99}])
        self.assertEqual(len(self.texts("x", k=9, where="c.metadata.n = 99")), 1)
        self.store.delete([added])
        self.assertEqual(self.texts("x", k=9, where="c.metadata.n = 99"), [])


class ChatHistory(Apps):
    def test_continues(self):
        def chat(session):
            history = CosmosDBChatMessageHistory(
                ENDPOINT, self.database, "chats", session, "ann", connection_string=f"AccountEndpoint={ENDPOINT};AccountKey={KEY};"
            )
            history.prepare_cosmos()
            return history

        history = chat("1")
        history.add_message(HumanMessage("hello"))
        history.add_message(AIMessage("hi"))
        self.assertEqual([m.content for m in chat("1").messages], ["hello", "hi"])
        self.assertEqual(chat("2").messages, [])
        history.clear()
        self.assertEqual(chat("1").messages, [])


class State(TypedDict):
    seen: Annotated[list, operator.add]


class Graph(Apps):
    def test_checkpoints(self):
        builder = StateGraph(State)
        builder.add_node("one", lambda state: {"seen": [f"turn {len(state['seen'])}"]})
        builder.add_edge(START, "one")
        builder.add_edge("one", END)
        with CosmosDBSaverSync(self.database, "checkpoints", endpoint=ENDPOINT, key=KEY) as saver:
            graph = builder.compile(checkpointer=saver)
            thread = {"configurable": {"thread_id": "1"}}
            graph.invoke({"seen": ["a"]}, thread)
            graph.invoke({"seen": ["b"]}, thread)
        with CosmosDBSaverSync(self.database, "checkpoints", endpoint=ENDPOINT, key=KEY) as saver:
            graph = builder.compile(checkpointer=saver)  # another process continues the thread
            self.assertEqual(graph.invoke({"seen": ["c"]}, thread)["seen"], ["a", "turn 1", "b", "turn 3", "c", "turn 5"])
            self.assertEqual(graph.get_state({"configurable": {"thread_id": "2"}}).values, {})
            history = [len(s.values.get("seen", [])) for s in graph.get_state_history(thread)]
            self.assertEqual(history, sorted(history, reverse=True))
            self.assertGreaterEqual(len(history), 6)

    def test_store(self):
        store = CosmosDBStore.from_endpoint(ENDPOINT, credential=KEY, database_name=self.database, container_name="store")
        store.setup()
        store.put(("users", "ann"), "likes", {"food": "soup", "n": 1})
        store.put(("users", "bob"), "likes", {"food": "rice", "n": 2})
        self.assertEqual(store.get(("users", "ann"), "likes").value["food"], "soup")
        found = store.search(("users",), filter={"food": "rice"})
        self.assertEqual([item.namespace for item in found], [("users", "bob")])
        self.assertEqual(sorted(store.list_namespaces(prefix=("users",))), [("users", "ann"), ("users", "bob")])
        store.delete(("users", "ann"), "likes")
        self.assertIsNone(store.get(("users", "ann"), "likes"))


if __name__ == "__main__":
    unittest.main()
