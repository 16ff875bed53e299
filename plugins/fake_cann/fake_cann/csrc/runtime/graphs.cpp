// What torchair, the compiler of graphs that is a part of torch_npu, needs of CANN: its modules can be imported, as
// programs do that register converters for operators. There are no graphs here: each of these functions refuses by name.
// The names are those that the libraries of torch_npu/dynamo/torchair do not find elsewhere (`python -m fake_cann wheel`).
#include <cxxabi.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "../exported.h"

namespace {

[[noreturn]] void refuse_graphs(const char* symbol) {
  char* name = abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr);
  const std::string text = name ? name : symbol;
  std::free(name);
  throw std::runtime_error("NotEmulated: the fake CANN has no " + text + ": it compiles no graphs. Run the program "
                           "without torch.compile(backend=\"npu\"), torchair and acl graphs");
}

}  // namespace

#define JOINED(left, right) left##right
#define NAMED(line) JOINED(refused_, line)
#define REFUSED_AT(line, symbol)                                                           \
  EXPORTED [[noreturn]] void NAMED(line)() __asm__(#symbol);                               \
  void NAMED(line)() { refuse_graphs(#symbol); }
#define REFUSED(symbol) REFUSED_AT(__LINE__, symbol)

REFUSED(_ZN2ge10GEFinalizeEv)
REFUSED(_ZN2ge10TensorDesc11SetDataTypeENS_8DataTypeE)
REFUSED(_ZN2ge10TensorDesc12SetPlacementENS_9PlacementE)
REFUSED(_ZN2ge10TensorDesc14SetOriginShapeERKNS_5ShapeE)
REFUSED(_ZN2ge10TensorDesc15SetOriginFormatENS_6FormatE)
REFUSED(_ZN2ge10TensorDesc9SetFormatENS_6FormatE)
REFUSED(_ZN2ge10TensorDescC1Ev)
REFUSED(_ZN2ge12AscendStringC1EPKc)
REFUSED(_ZN2ge12GEInitializeERKSt3mapINS_12AscendStringES1_St4lessIS1_ESaISt4pairIKS1_S1_EEE)
REFUSED(_ZN2ge13GEGetErrorMsgEv)
REFUSED(_ZN2ge13GetFormatNameENS_6FormatE)
REFUSED(_ZN2ge15OperatorFactory14CreateOperatorEPKcS2_)
REFUSED(_ZN2ge15OperatorFactory9IsExistOpEPKc)
REFUSED(_ZN2ge17GEGetWarningMsgV2Ev)
REFUSED(_ZN2ge5Graph28LoadFromSerializedModelArrayEPKvm)
REFUSED(_ZN2ge5Graph8CopyFromERKS0_)
REFUSED(_ZN2ge5GraphC1EPKc)
REFUSED(_ZN2ge5ShapeC1ERKSt6vectorIlSaIlEE)
REFUSED(_ZN2ge6Tensor11SetDataTypeERKNS_8DataTypeE)
REFUSED(_ZN2ge6Tensor11SetShapeDimEml)
REFUSED(_ZN2ge6Tensor12SetPlacementERKNS_9PlacementE)
REFUSED(_ZN2ge6Tensor13SetTensorDescERKNS_10TensorDescE)
REFUSED(_ZN2ge6Tensor14SetShapeDimNumEm)
REFUSED(_ZN2ge6Tensor17SetOriginShapeDimEml)
REFUSED(_ZN2ge6Tensor20SetOriginShapeDimNumEm)
REFUSED(_ZN2ge6Tensor7GetDataEv)
REFUSED(_ZN2ge6Tensor7SetDataEPhmRKSt8functionIFvS1_EE)
REFUSED(_ZN2ge6Tensor9ResetDataEPhmRKSt8functionIFvS1_EE)
REFUSED(_ZN2ge6Tensor9ResetDataEv)
REFUSED(_ZN2ge6Tensor9SetFormatERKNS_6FormatE)
REFUSED(_ZN2ge6TensorC1Ev)
REFUSED(_ZN2ge7Session11RemoveGraphEj)
REFUSED(_ZN2ge7Session12CompileGraphEj)
REFUSED(_ZN2ge7Session23GetCompiledGraphSummaryEj)
REFUSED(_ZN2ge7Session23RunGraphWithStreamAsyncEjPvRKSt6vectorINS_6TensorESaIS3_EERS5_)
REFUSED(_ZN2ge7Session23SetGraphConstMemoryBaseEjPKvm)
REFUSED(_ZN2ge7Session28UpdateGraphFeatureMemoryBaseEjPKvm)
REFUSED(_ZN2ge7Session30SetGraphFixedFeatureMemoryBaseEjPKvm)
REFUSED(_ZN2ge7Session39UpdateGraphRefreshableFeatureMemoryBaseEjPKvm)
REFUSED(_ZN2ge7Session8AddGraphEjRKNS_5GraphERKSt3mapINS_12AscendStringES5_St4lessIS5_ESaISt4pairIKS5_S5_EEE)
REFUSED(_ZN2ge7Session8RunGraphEjRKSt6vectorINS_6TensorESaIS2_EERS4_)
REFUSED(_ZN2ge7SessionC1ERKSt3mapINS_12AscendStringES2_St4lessIS2_ESaISt4pairIKS2_S2_EEE)
REFUSED(_ZN2ge7SessionD1Ev)
REFUSED(_ZN2ge8Operator15UpdateInputDescEPKcRKNS_10TensorDescE)
REFUSED(_ZNK2ge10TensorDesc11GetDataTypeEv)
REFUSED(_ZNK2ge10TensorDesc12GetPlacementEv)
REFUSED(_ZNK2ge10TensorDesc8GetShapeEv)
REFUSED(_ZNK2ge10TensorDesc9GetFormatEv)
REFUSED(_ZNK2ge12AscendString9GetStringEv)
REFUSED(_ZNK2ge12AscendStringeqERKS0_)
REFUSED(_ZNK2ge12AscendStringltERKS0_)
REFUSED(_ZNK2ge20CompiledGraphSummary15GetOutputDtypesERSt6vectorINS_8DataTypeESaIS2_EE)
REFUSED(_ZNK2ge20CompiledGraphSummary15GetOutputShapesERSt6vectorINS_5ShapeESaIS2_EE)
REFUSED(_ZNK2ge20CompiledGraphSummary18GetConstMemorySizeERm)
REFUSED(_ZNK2ge20CompiledGraphSummary20GetFeatureMemorySizeERm)
REFUSED(_ZNK2ge20CompiledGraphSummary25GetFixedFeatureMemorySizeERm)
REFUSED(_ZNK2ge20CompiledGraphSummary31GetFeatureMemoryBaseRefreshableERb)
REFUSED(_ZNK2ge20CompiledGraphSummary8IsStaticEv)
REFUSED(_ZNK2ge5GNode7GetTypeERNS_12AscendStringE)
REFUSED(_ZNK2ge5Graph10SaveToFileEPKc)
REFUSED(_ZNK2ge5Graph11GetAllNodesEv)
REFUSED(_ZNK2ge5Shape7GetDimsEv)
REFUSED(_ZNK2ge6Tensor11GetDataTypeEv)
REFUSED(_ZNK2ge6Tensor11GetShapeDimEm)
REFUSED(_ZNK2ge6Tensor12GetPlacementEv)
REFUSED(_ZNK2ge6Tensor13GetTensorDescEv)
REFUSED(_ZNK2ge6Tensor14GetShapeDimNumEv)
REFUSED(_ZNK2ge6Tensor20GetOriginShapeDimNumEv)
REFUSED(_ZNK2ge6Tensor7GetDataEv)
REFUSED(_ZNK2ge6Tensor9GetFormatEv)
REFUSED(_ZNK2ge7Session25RegisterExternalAllocatorEPKvSt10shared_ptrINS_9AllocatorEE)
REFUSED(_ZNK2ge8Operator25GetAllIrAttrNamesAndTypesERSt3mapINS_12AscendStringES2_St4lessIS2_ESaISt4pairIKS2_S2_EEE)
REFUSED(aclopStartDumpArgs)
REFUSED(aclopStopDumpArgs)
REFUSED(acltdtCreateChannelWithCapacity)
REFUSED(acltdtCreateDataset)
REFUSED(acltdtDestroyChannel)
REFUSED(acltdtDestroyDataset)
REFUSED(acltdtGetDataAddrFromItem)
REFUSED(acltdtGetDataItem)
REFUSED(acltdtGetDataSizeFromItem)
REFUSED(acltdtGetDataTypeFromItem)
REFUSED(acltdtGetDatasetSize)
REFUSED(acltdtGetDimNumFromItem)
REFUSED(acltdtGetDimsFromItem)
REFUSED(acltdtReceiveTensor)

// Of the securec library, which torchair prints its messages with.
EXPORTED int vsnprintf_s(char* into, size_t size, size_t count, const char* format, va_list values) {
  const int written = std::vsnprintf(into, count < size ? count + 1 : size, format, values);
  return written < 0 || size_t(written) >= size ? -1 : written;
}
EXPORTED int snprintf_s(char* into, size_t size, size_t count, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int written = vsnprintf_s(into, size, count, format, values);
  va_end(values);
  return written;
}
EXPORTED int strcpy_s(char* into, size_t size, const char* from) {
  if (!into || !from || std::strlen(from) >= size) return 22;  // EINVAL
  std::strcpy(into, from);
  return 0;
}
